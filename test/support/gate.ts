// A place where handlers wait until a test lets them go, by name.

export interface Gate {
  /** Called by the handler: waits until opened; rejects when the signal is aborted. */
  enter(name: string, signal: AbortSignal): Promise<void>;
  /** Resolves once the handler with that name waits. */
  entered(name: string): Promise<void>;
  open(name: string): void;
}

export function gate(): Gate {
  const arrived = new Map<string, PromiseWithResolvers>();
  const opened = new Map<string, PromiseWithResolvers>();
  const of = (map: Map<string, PromiseWithResolvers>, name: string): PromiseWithResolvers => {
    const known = map.get(name) ?? resolvers();
    map.set(name, known);
    return known;
  };
  return {
    enter(name, signal) {
      of(arrived, name).resolve();
      return new Promise((resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
        if (signal.aborted) reject(signal.reason);
        void of(opened, name).promise.then(resolve);
      });
    },
    entered: (name) => of(arrived, name).promise,
    open: (name) => of(opened, name).resolve(),
  };
}

interface PromiseWithResolvers {
  promise: Promise<void>;
  resolve: () => void;
}

function resolvers(): PromiseWithResolvers {
  let resolve: () => void = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
