import { isCodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { KernelMessage } from '@jupyterlab/services';
import { JSONExt } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { isObject } from '../pool/reading';

/**
 * Keeps the lines up to date that tell of one notebook's background jobs. JupyterLab does so with displays that it has seen come, and
 * not with those of a page that was loaded anew. Ends with the notebook.
 */
export class JobLines implements IDisposable {
  constructor(private readonly _panel: NotebookPanel) {
    _panel.sessionContext.iopubMessage.connect(this._onMessage, this);
    _panel.disposed.connect(this.dispose, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Idempotent. */
  dispose(): void {
    this._isDisposed = true;
    this._panel.sessionContext.iopubMessage.disconnect(this._onMessage, this);
    this._panel.disposed.disconnect(this.dispose, this);
  }

  private _onMessage(_: unknown, message: KernelMessage.IMessage): void {
    if (isUpdate(message)) {
      const { data, metadata } = message.content;
      const job = jobOf(metadata);
      if (job !== null) {
        this._show(job, { output_type: 'display_data', data, metadata });
      }
    }
  }

  private _show(job: string, line: Line): void {
    for (const cell of this._panel.content.model?.cells ?? []) {
      const outputs = isCodeCellModel(cell) ? cell.outputs : null;
      for (let i = 0; i < (outputs?.length ?? 0); i++) {
        const output = outputs?.get(i);
        if (output && jobOf(output.metadata) === job && !JSONExt.deepEqual(output.data, line.data)) {
          outputs?.set(i, line);
        }
      }
    }
  }

  private _isDisposed = false;
}

type Update = KernelMessage.IUpdateDisplayDataMsg;
type Line = Pick<Update['content'], 'data' | 'metadata'> & { output_type: 'display_data' };

function isUpdate(message: KernelMessage.IMessage): message is Update {
  return message.header.msg_type === 'update_display_data';
}

/** The job that an output tells of. It is saved with the notebook, other than the display's id. */
function jobOf(metadata: unknown): string | null {
  const wool = isObject(metadata) ? metadata.wool : null;
  return isObject(wool) && typeof wool.job === 'string' ? wool.job : null;
}
