// What a server that has just made the first API key says: the only time that anybody sees it.
import type { Output } from '../output.ts';

export function tellFirstKey(output: Output, secret: string): void {
  if (output.asJson) return output.jsonLine({ first_key: secret });
  output.line();
  output.line(`The first API key, of the role admin; it is shown now and never again:`);
  output.line();
  output.line(`  ${output.paint('bold', secret)}`);
  output.line();
}
