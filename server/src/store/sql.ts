// SQL as tagged templates: values become parameters, fragments are inlined, and each text is prepared under one name.

export interface Sql {
  readonly text: string;
  readonly values: readonly unknown[];
  readonly name: string;
  readonly plannedOnce?: true;
}

/** A statement, or the one for a version of PostgreSQL: 170000 is the first of 17. */
export type Statement = Sql | ((version: number) => Sql);

/**
 * From this version on PostgreSQL finds the rows of many keys in one walk through an index. Those before go down the index for
 * each, or, when the plan was made while the table was small, through all of a segment.
 */
export const findsManyAtOnce = 170_000;

class Fragment {
  readonly strings: readonly string[];
  readonly values: readonly unknown[];
  constructor(strings: readonly string[], values: readonly unknown[]) {
    this.strings = strings;
    this.values = values;
  }
}

const names = new Map<string, string>();

/** A whole statement. */
export function sql(strings: TemplateStringsArray, ...inputs: unknown[]): Sql {
  const values: unknown[] = [];
  const text = flatten(strings, inputs, values);
  let name = names.get(text);
  if (name === undefined) {
    name = `p${names.size}`;
    names.set(text, name);
  }
  return { text, values, name };
}

/**
 * A whole statement that runs all the time: a connection plans it once, for any parameters. PostgreSQL would else plan some of
 * them each time, which for a small batch takes longer than running it: where a parameter limits the rows it expects a tenth
 * of the table, and while many runs wait any plan for known parameters seems better than that. It is planned without bitmap
 * scans: those read all entries of an index whose rows are gone and leave them there, and of runs that start and end most are.
 */
export function sqlPlannedOnce(strings: TemplateStringsArray, ...inputs: unknown[]): Sql {
  return { ...sql(strings, ...inputs), plannedOnce: true };
}

/** A piece to put into a statement or another piece. */
export function part(strings: TemplateStringsArray, ...inputs: unknown[]): Fragment {
  return new Fragment(strings, inputs);
}

/** Pieces with a word between them; `none` stands for no pieces. */
export function join(
  parts: readonly Fragment[],
  separator: ' and ' | ' or ' | ' union all ' | ', ',
  none: Fragment,
): Fragment {
  if (parts.length === 0) return none;
  return new Fragment(['', ...parts.slice(1).map(() => separator), ''], parts);
}

/**
 * For rows that are found by their ctid or key: the segment they must be in, said so that its index is of no use. A plan that was
 * made while the table was small would else go through all of the segment to find them. A database that is spread over
 * machines by segment needs `=` here.
 */
export function ofSegment(column: Fragment, segment: number): Fragment {
  return part`${column} is not distinct from ${segment}::smallint`;
}

/**
 * The end of a look-up of one row of a segment: its `column` is `value`. Every index begins with the segment, and while a
 * table is small each seems as good as the others; the plan that is then cached may go through all of the segment. Only one
 * index has the order that is asked for here, so that one is taken.
 */
export function theOne(column: Fragment, value: Fragment): Fragment {
  return part`${column} >= ${value} and ${column} <= ${value} order by ${column} limit 1`;
}

/**
 * Arrays of one length as rows, under the names of their columns. PostgreSQL goes through arrays in the list of a select side
 * by side; of those in FROM it first stores each as rows of its own.
 */
export function unnested(arrays: Readonly<Record<string, Fragment>>, numbered: Fragment = part``): Fragment {
  const columns = Object.keys(arrays);
  const between = columns.slice(0, -1).map((column) => `) as ${column}, unnest(`);
  return part`(select ${new Fragment(['unnest(', ...between, `) as ${columns.at(-1)}`], Object.values(arrays))}${numbered})`;
}

/** For `unnested`: which of the `count` rows it is, as `place`: 1, 2, 3, … */
export function placed(count: number): Fragment {
  return part`, generate_series(1, ${count}::integer) as place`;
}

/** Joins the job `j` of each row, found by its id alone (see theOne); `columns` is what is asked of it. */
export function joinJob(segment: number, id: Fragment, columns: Fragment): Fragment {
  return part`cross join lateral (
        select ${columns} from punctual.jobs j where j.segment = ${segment}::smallint and ${theOne(part`j.job_id`, id)}
      ) j`;
}

/**
 * A time in whole ms since 1970, as the rules count. Cut and never rounded up: who believes to be half a millisecond later
 * than the database takes a time that comes in just that moment for one that is over, and loses it.
 */
export function epochMs(time: Fragment): Fragment {
  return part`floor(extract(epoch from ${time}) * 1000)::bigint`;
}

export type { Fragment };

function flatten(strings: readonly string[], inputs: readonly unknown[], values: unknown[]): string {
  let text = strings[0] ?? '';
  for (let i = 0; i < inputs.length; i++) {
    const input = inputs[i];
    if (input instanceof Fragment) {
      text += flatten(input.strings, input.values, values);
    } else {
      values.push(input);
      text += `$${values.length}`;
    }
    text += strings[i + 1] ?? '';
  }
  return text;
}
