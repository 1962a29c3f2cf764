import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { INotebookPools, NotebookPools } from '../lab/notebookPools';

export const pools: JupyterFrontEndPlugin<INotebookPools> = {
  id: 'wool-jupyter-labextension:pools',
  description: 'Follows the pools of the notebooks that are open.',
  autoStart: true,
  requires: [INotebookTracker],
  provides: INotebookPools,
  activate: (_, tracker: INotebookTracker) => new NotebookPools(tracker)
};
