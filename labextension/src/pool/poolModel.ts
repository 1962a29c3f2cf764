import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';
import { KernelClock } from './kernelClock';
import { CellRun, OtherSchema, readSnapshot, Snapshot } from './snapshot';

/** Of the way to the kernel: there is no kernel, it does not know wool (yet), it can be heard, it answers. */
export type Connection = 'none' | 'unknown' | 'heard' | 'open';

/** What is known of one kernel's pool. Views read it and are told of changes; only its `KernelLink` writes. */
export class PoolModel implements IDisposable {
  readonly clock = new KernelClock();

  /** Also when the trouble or the connection has changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get snapshot(): Snapshot | null {
    return this._snapshot;
  }

  get connection(): Connection {
    return this._connection;
  }

  /** What went wrong last, in words, or "". */
  get trouble(): string {
    return this._trouble;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  run(cell: string): CellRun | undefined {
    return this._snapshot?.cells.findLast(run => run.cell === cell);
  }

  /** What is no snapshot is reported to the console, once for each kind of fault, and changes nothing. */
  receive(data: unknown, now: number): void {
    try {
      this._snapshot = readSnapshot(data);
      this.clock.heard(this._snapshot.time, now);
    } catch (error) {
      if (error instanceof OtherSchema) {
        this.report(error.message);
      } else {
        this._warnOnce(String(error));
      }
      return;
    }
    this._changed.emit();
  }

  report(trouble: string): void {
    this._trouble = trouble;
    this._changed.emit();
  }

  connect(connection: Connection): void {
    if (connection !== this._connection) {
      this._connection = connection;
      this._changed.emit();
    }
  }

  /** The kernel is a new one: nothing that was known holds. */
  forget(connection: Connection): void {
    this._snapshot = null;
    this._trouble = '';
    this._connection = connection;
    this._changed.emit();
  }

  dispose(): void {
    this._isDisposed = true;
    Signal.clearData(this);
  }

  private _warnOnce(fault: string): void {
    if (!this._faults.has(fault)) {
      this._faults.add(fault);
      console.warn(`wool_jupyter: ${fault}`);
    }
  }

  private readonly _changed = new Signal<this, void>(this);
  private readonly _faults = new Set<string>();
  private _connection: Connection = 'none';
  private _isDisposed = false;
  private _snapshot: Snapshot | null = null;
  private _trouble = '';
}
