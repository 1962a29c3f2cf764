/** Calls when somebody can see `node`, and again every `everyMs` as long as that is so. `stop` is idempotent. */
export class Visibility {
  constructor(
    node: Element,
    private readonly _seen: () => void,
    private readonly _everyMs: number
  ) {
    this._observer = new IntersectionObserver(entries => {
      this._onScreen = entries.at(-1)?.isIntersecting ?? false;
      this._check();
    });
    this._observer.observe(node);
    document.addEventListener('visibilitychange', this._check);
  }

  stop(): void {
    this._observer.disconnect();
    document.removeEventListener('visibilitychange', this._check);
    clearTimeout(this._timer);
  }

  private readonly _check = () => {
    clearTimeout(this._timer);
    if (this._onScreen && document.visibilityState === 'visible') {
      this._seen();
      this._timer = setTimeout(this._check, this._everyMs);
    }
  };

  private readonly _observer: IntersectionObserver;
  private _onScreen = false;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
