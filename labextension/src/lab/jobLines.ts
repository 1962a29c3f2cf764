import { isCodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { KernelMessage } from '@jupyterlab/services';
import { JSONExt } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { jobMark, withHint } from '../pool/jobLine';
import type { IJobMark } from '../pool/jobLine';

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
    if (!isDisplay(message)) {
      return;
    }
    const { data, metadata } = message.content;
    const mark = jobMark(metadata);
    if (mark !== null && message.header.msg_type === 'display_data') {
      this._seen.add(mark.job);
    } else if (mark !== null) {
      this._show(mark, { output_type: 'display_data', data, metadata });
    }
  }

  private _show(mark: IJobMark, line: Line): void {
    const wasSeen = this._seen.has(mark.job);
    const shown = wasSeen ? line : { ...line, data: withHint(line.data, mark) };
    for (const cell of this._panel.content.model?.cells ?? []) {
      const outputs = isCodeCellModel(cell) ? cell.outputs : null;
      for (let i = 0; i < (outputs?.length ?? 0); i++) {
        const output = outputs?.get(i);
        if (
          !output ||
          jobMark(output.metadata)?.job !== mark.job ||
          JSONExt.deepEqual(output.data, shown.data)
        ) {
          continue;
        }
        // What ended before the page was saved is there whole.
        if (wasSeen || !mark.ended || !JSONExt.deepEqual(output.data, line.data)) {
          outputs?.set(i, shown);
        }
      }
    }
  }

  /** Jobs whose line came to this page, and with it all that they have shown. */
  private readonly _seen = new Set<string>();
  private _isDisposed = false;
}

type Display = KernelMessage.IUpdateDisplayDataMsg | KernelMessage.IDisplayDataMsg;
type Line = Pick<Display['content'], 'data' | 'metadata'> & { output_type: 'display_data' };

function isDisplay(message: KernelMessage.IMessage): message is Display {
  return ['update_display_data', 'display_data'].includes(message.header.msg_type);
}
