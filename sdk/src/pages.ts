// Walks a list page by page: an async iterator over the rows of all pages, used by jobs.all and runs.all. A page may be
// empty and still have a next one, since the server looks at a bounded number of rows for each.

interface Page {
  next_cursor: string | null;
}

export async function* eachRow<P extends Page, Row>(
  getPage: (cursor: string | undefined) => Promise<P>,
  rowsOf: (page: P) => readonly Row[],
): AsyncGenerator<Row, void, undefined> {
  let cursor: string | undefined;
  do {
    const page = await getPage(cursor);
    yield* rowsOf(page);
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
}
