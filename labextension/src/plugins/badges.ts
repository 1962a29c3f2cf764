import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { CellBadges } from '../lab/cellBadges';
import { JobLines } from '../lab/jobLines';
import { INotebookPools } from '../lab/notebookPools';

export const badges: JupyterFrontEndPlugin<void> = {
  id: 'wool-jupyter-labextension:badges',
  description: 'Shows below a cell which worker it runs or ran on, and what became of its background job.',
  autoStart: true,
  requires: [INotebookPools],
  activate: (_, pools: INotebookPools) => {
    pools.opened.connect((_, pool) => {
      new CellBadges(pool);
      new JobLines(pool.panel);
    });
  }
};
