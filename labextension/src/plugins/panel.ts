import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { addCommands, CommandIds } from '../lab/commands';
import { INotebookPools } from '../lab/notebookPools';
import { PoolPanel } from '../lab/poolPanel';
import { StatusItem } from '../lab/statusItem';

export const panel: JupyterFrontEndPlugin<void> = {
  id: 'wool-jupyter-labextension:panel',
  description: 'The panel of the pool, its commands and its item in the status bar.',
  autoStart: true,
  requires: [INotebookPools],
  optional: [ICommandPalette, ILayoutRestorer, IStatusBar],
  activate: (
    app: JupyterFrontEnd,
    pools: INotebookPools,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    statusBar: IStatusBar | null
  ) => {
    const panel = new PoolPanel(pools);
    app.shell.add(panel, 'left', { rank: 850, type: 'Wool' });
    restorer?.add(panel, panel.id);

    const open = () => app.shell.activateById(panel.id);
    addCommands(app.commands, pools, open);
    for (const command of Object.values(CommandIds)) {
      palette?.addItem({ command, category: 'Wool' });
    }
    statusBar?.registerStatusItem('wool-jupyter:status', {
      item: new StatusItem(pools, open),
      align: 'left',
      rank: 90
    });
  }
};
