// Where in a JSON text a path such as `steps.load.needs[0]` stands: so that an error of the server is shown at its line.
// For text that is JSON. Pure.

const token = /\s*(?:([[\]{},:])|("(?:[^"\\]|\\.)*")|([^\s[\]{},:"]+))/y;

/** The offset of the value, or of the nearest part of the path that is there. */
export function placeOf(text: string, path: string): number {
  const steps = path.split(/\.|\[(\d+)\]/).filter((step) => step !== undefined && step !== '');
  const places = placesIn(text);
  for (let length = steps.length; length > 0; length -= 1) {
    const found = places.get(steps.slice(0, length).join('\n'));
    if (found !== undefined) return found;
  }
  return places.get('') ?? 0;
}

/** The offset of each value, by the steps to it; of a member the offset of its name. */
function placesIn(text: string): Map<string, number> {
  const places = new Map<string, number>();
  let at = 0;
  const next = (): { start: number; text: string } => {
    token.lastIndex = at;
    const found = token.exec(text);
    if (found === null) return { start: text.length, text: '' };
    at = token.lastIndex;
    const word = found[1] ?? found[2] ?? found[3] ?? '';
    return { start: at - word.length, text: word };
  };
  const read = (steps: readonly string[], start: number, first: string): void => {
    places.set(steps.join('\n'), start);
    if (first === '{') {
      for (let name = next(); name.text !== '' && name.text !== '}'; name = next()) {
        if (name.text === ',') continue;
        next();
        const value = next();
        read([...steps, JSON.parse(name.text) as string], name.start, value.text);
      }
    } else if (first === '[') {
      let index = 0;
      for (let value = next(); value.text !== '' && value.text !== ']'; value = next()) {
        if (value.text === ',') continue;
        read([...steps, String(index)], value.start, value.text);
        index += 1;
      }
    }
  };
  const first = next();
  read([], first.start, first.text);
  return places;
}
