// Prints lists: one page with the way to the next one, or all pages as they come. Used by every `list` command.
import type { Output, Paint } from './output.ts';
import { now } from './time.ts';

export interface Print<Row> {
  output: Output;
  head: string[];
  row: (row: Row, paint: Paint, now: number) => string[];
  /** Said when there is nothing to print. */
  none: string;
  /** The command that shows more, without its flags. */
  more: string;
}

/** Rows of a table that are laid out together; a longer list gets its head again. */
const max_table_rows = 200;

export function printPage<Row>(page: { next_cursor: string | null }, rows: readonly Row[], print: Print<Row>): void {
  const { output, head, row, none, more } = print;
  if (output.asJson) return output.json(page);
  const at = now();
  if (rows.length > 0)
    output.table(
      head,
      rows.map((one) => row(one, output.paint, at)),
    );
  else output.remark(none);
  if (page.next_cursor !== null)
    output.remark(`\nmore: ${more} --cursor ${page.next_cursor} (with the same filters), or --all`, 'dim');
}

export async function printRows<Row>(rows: AsyncIterable<Row>, print: Print<Row>): Promise<void> {
  const { output, head, row, none } = print;
  let table: string[][] = [];
  let count = 0;
  for await (const one of rows) {
    count += 1;
    if (output.asJson) {
      output.jsonLine(one);
      continue;
    }
    table.push(row(one, output.paint, now()));
    if (table.length < max_table_rows) continue;
    output.table(head, table);
    table = [];
  }
  if (table.length > 0) output.table(head, table);
  if (count === 0 && !output.asJson) output.remark(none);
}
