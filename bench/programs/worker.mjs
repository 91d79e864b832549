// The worker process of one contestant, with a handler that does nothing. Arguments: contestant, its place as JSON,
// `submitted` or `due`: whether `t` in a payload is the tick of the submit call or the wall time it is due at.
import { tick, wall } from '../clock.mjs';
import { contestants } from '../contestants/index.mjs';
import { answer, tellCount } from './answer.mjs';

const [name, placeText, meaning] = process.argv.slice(2);
const now = meaning === 'due' ? wall : tick;
let n = 0;
let first = 0;
let lateMs = [];
let worker = null;

function onStart({ t }) {
  if (n === 0) first = tick();
  n += 1;
  if (t !== 0 && t !== undefined) lateMs.push(now() - t);
}

answer({
  open: async () => {
    worker = await contestants[name].openWorker(JSON.parse(placeText), onStart);
  },
  report: () => ({ n, first, lateMs }),
  reset: () => {
    n = 0;
    lateMs = [];
  },
  close: () => worker?.close(),
});
tellCount(() => n);
