/** Children of `parent`, one for each item: an item that stays keeps its node, and with it focus and selection. */
export class KeyedList<T, P extends { readonly node: HTMLElement }> {
  constructor(
    private readonly _parent: HTMLElement,
    private readonly _key: (item: T) => string,
    private readonly _make: (item: T) => P
  ) {}

  get parts(): Iterable<P> {
    return this._parts.values();
  }

  show(items: readonly T[], draw: (part: P, item: T) => void): void {
    const shown = new Map<string, P>();
    for (const item of items) {
      const key = this._key(item);
      shown.set(key, this._parts.get(key) ?? this._make(item));
    }
    for (const [key, part] of this._parts) {
      if (!shown.has(key)) {
        part.node.remove(); // first: to move one that stays would take its focus
      }
    }
    this._parts = shown;
    let place = this._parent.firstElementChild;
    for (const item of items) {
      const part = shown.get(this._key(item));
      if (part === undefined) {
        continue;
      }
      draw(part, item);
      if (part.node === place) {
        place = place.nextElementSibling;
      } else {
        this._parent.insertBefore(part.node, place);
      }
    }
  }

  private _parts = new Map<string, P>();
}
