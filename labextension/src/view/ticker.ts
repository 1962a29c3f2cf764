/** Calls at every full second while somebody can see the page. `stop` is idempotent. */
export class Ticker {
  constructor(private readonly _tick: () => void) {
    document.addEventListener('visibilitychange', this._wake);
    this._wake();
  }

  stop(): void {
    document.removeEventListener('visibilitychange', this._wake);
    clearTimeout(this._timer);
  }

  private readonly _wake = () => {
    clearTimeout(this._timer);
    if (document.visibilityState === 'visible') {
      this._tick();
      this._timer = setTimeout(this._wake, 1000 - (Date.now() % 1000));
    }
  };

  private _timer: ReturnType<typeof setTimeout> | undefined;
}
