// Names that users choose, as values of a label: the first so many are kept as they are, all later ones are `other`. A metric
// with a label for each of a million names would take the memory of whoever keeps it.

export const otherLabel = 'other';

export class FewLabels {
  readonly #known = new Set<string>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  of(name: string): string {
    if (this.#known.has(name)) return name;
    if (this.#known.size >= this.#max) return otherLabel;
    this.#known.add(name);
    return name;
  }
}
