/**
 * The kernel's clock as seen from this page, in epoch seconds: they may run on different computers.
 *
 * The nearest difference that was seen counts: a message that was long on its way would make what runs look younger.
 */
export class KernelClock {
  /** `now`: this page's epoch seconds at which a snapshot of the kernel's `time` came. */
  heard(time: number, now: number): void {
    this._behind = this._behind === null ? now - time : Math.min(this._behind, now - time);
  }

  at(now: number): number {
    return now - (this._behind ?? 0);
  }

  private _behind: number | null = null;
}
