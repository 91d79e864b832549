// Whether calls go to changing servers, in the protocol thread: a balancer may choose one for each call, or each connection. One
// that went to another when its server was stopped does not roam. protocol.ts owns it.

const changes_of_roaming = 3;
const forget_after_ms = 60_000;

export class Roaming {
  #serverId: string | null = null;
  /** When another server answered than before, the last times. */
  #changes: number[] = [];

  /** `beside`: another call is open and has not failed. So the server that answered before is there, and this is another. */
  answered(serverId: string, { now, beside }: { now: number; beside: boolean }): void {
    const changed = this.#serverId !== null && this.#serverId !== serverId;
    this.#serverId = serverId;
    if (!changed) return;
    const times = Array.from({ length: beside ? changes_of_roaming : 1 }, () => now);
    this.#changes = [...this.#changes, ...times].slice(-changes_of_roaming);
  }

  isOn(now: number): boolean {
    const [first] = this.#changes;
    return this.#changes.length === changes_of_roaming && first !== undefined && now - first < forget_after_ms;
  }
}
