// The watcher: checks the rules whose time has come and tells of what is due to be told. Every server does it; the book gives
// each check and each message to one of them (store/alert_rules.ts, store/alerts.ts).
import type { Logger } from '../base/log.ts';
import { checkRule } from '../store/alert_checks.ts';
import { dueAlertRules, failRule, holdRule } from '../store/alert_rules.ts';
import { applyFindings, countFiring, notifyDue } from '../store/alerts.ts';
import type { Database } from '../store/database.ts';
import { endedHorizon, summarizeEnds } from '../store/ended_lately.ts';
import { writeAlertEvents } from '../store/events.ts';

export interface WatcherParts {
  db: Database;
  log: Logger;
  segments: readonly number[];
  /** How often a rule is checked. */
  everyMs: number;
  /** There is something to send. */
  onMessages: () => void;
}

/** What ended longer ago is not counted any more: then no server was there to check. */
const furthestMs = 3_600_000;

export class Watcher {
  readonly #parts: WatcherParts;
  /** Alerts that go on, as of the last pass. */
  firing = 0;

  constructor(parts: WatcherParts) {
    this.#parts = parts;
  }

  /** Answers in how many ms the next rule's time comes. */
  async pass(): Promise<number> {
    const { db, everyMs, onMessages } = this.#parts;
    const rules = await dueAlertRules(db);
    const due = rules.filter(({ in_ms }) => in_ms <= 0);
    if (due.length > 0) {
      await summarizeEnds(db);
      const horizon = await endedHorizon(db);
      for (const { name } of due) await this.#check(name, horizon);
    }
    if ((await notifyDue(db)) > 0) onMessages();
    this.firing = await countFiring(db);
    const next = rules.find(({ in_ms }) => in_ms > 0);
    return Math.max(10, Math.min(everyMs, next?.in_ms ?? everyMs));
  }

  async #check(name: string, horizon: string): Promise<void> {
    const { db, log, segments, everyMs, onMessages } = this.#parts;
    try {
      const written = await db.transaction(async (tx) => {
        const held = await holdRule(tx, name, { every_ms: everyMs, horizon, furthest_ms: furthestMs });
        if (held === null) return 0;
        const changed = await applyFindings(tx, held, await checkRule(tx, held, segments));
        return writeAlertEvents(tx, changed);
      });
      if (written > 0) onMessages();
    } catch (error) {
      // One rule that cannot be checked must not keep the others from it.
      log.warn({ rule: name, err: error }, 'an alert rule could not be checked');
      await failRule(db, name, error instanceof Error ? error.message : String(error), everyMs);
    }
  }
}
