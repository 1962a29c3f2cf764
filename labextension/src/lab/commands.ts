import { InputDialog } from '@jupyterlab/apputils';
import { CodeCell } from '@jupyterlab/cells';
import { NotebookActions } from '@jupyterlab/notebook';
import { refreshIcon, stopIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import { fromWool, IEdit, runsOnWool, toWool } from '../pool/cellSource';
import { shortUid } from '../pool/format';
import { isWorking, PoolWorker } from '../pool/snapshot';
import type { NotebookPool } from './notebookPool';
import type { INotebookPools } from './notebookPools';
import { woolIcon } from './woolIcon';

export const CommandIds = {
  runCell: 'wool-jupyter:run-cell',
  toggleCell: 'wool-jupyter:toggle-cell',
  interruptWorker: 'wool-jupyter:interrupt-worker',
  restartWorker: 'wool-jupyter:restart-worker',
  openDashboard: 'wool-jupyter:open-dashboard'
} as const;

/** `open` shows the panel. */
export function addCommands(commands: CommandRegistry, pools: INotebookPools, open: () => void): void {
  commands.addCommand(CommandIds.runCell, {
    label: 'Run Cell on Wool',
    caption: 'Run this cell in a worker process',
    icon: woolIcon,
    isEnabled: () => activeCell(pools.current) !== null,
    execute: () => runCell(pools.current)
  });
  commands.addCommand(CommandIds.toggleCell, {
    label: 'Toggle %%wool on Cell',
    caption: 'Have this cell run in a worker process, or in the kernel again',
    isEnabled: () => activeCell(pools.current) !== null,
    isToggled: () => runsOnWool(sourceOf(activeCell(pools.current))),
    execute: () => toggleCell(pools.current)
  });
  commands.addCommand(CommandIds.interruptWorker, {
    label: 'Interrupt Wool Worker',
    caption: 'Interrupt what a worker runs',
    icon: stopIcon,
    isEnabled: () => workersOf(pools.current).some(isWorking),
    execute: async () => {
      const worker = await chosen(pools.current, 'Interrupt Wool Worker', isWorking);
      if (worker) {
        pools.current?.ask({ do: 'interrupt', worker: worker.uid });
      }
    }
  });
  commands.addCommand(CommandIds.restartWorker, {
    label: 'Restart Wool Worker',
    caption: 'Replace a worker: what it runs ends, what it keeps is lost',
    icon: refreshIcon,
    isEnabled: () => workersOf(pools.current).some(isOurs),
    execute: async () => {
      const worker = await chosen(pools.current, 'Restart Wool Worker', isOurs);
      if (worker) {
        pools.current?.ask({ do: 'restart', worker: worker.uid });
      }
    }
  });
  commands.addCommand(CommandIds.openDashboard, {
    label: 'Open Wool Dashboard',
    caption: 'Show the workers of this notebook',
    icon: woolIcon,
    execute: open
  });
}

function activeCell(pool: NotebookPool | null): CodeCell | null {
  const cell = pool?.panel.content.activeCell;
  return cell instanceof CodeCell ? cell : null;
}

function sourceOf(cell: CodeCell | null): string {
  return cell?.model.sharedModel.getSource() ?? '';
}

/** One step of undo; the cursor stays where it is in the text. */
function change(cell: CodeCell, edit: IEdit | null): void {
  if (edit) {
    cell.model.sharedModel.updateSource(edit.start, edit.end, edit.text);
  }
}

async function runCell(pool: NotebookPool | null): Promise<void> {
  const cell = activeCell(pool);
  if (pool && cell) {
    change(cell, toWool(sourceOf(cell)));
    pool.load();
    await NotebookActions.run(pool.panel.content, pool.panel.sessionContext);
  }
}

function toggleCell(pool: NotebookPool | null): void {
  const cell = activeCell(pool);
  if (cell) {
    const source = sourceOf(cell);
    change(cell, runsOnWool(source) ? fromWool(source) : toWool(source));
  }
}

function workersOf(pool: NotebookPool | null): readonly PoolWorker[] {
  return pool?.model.connection === 'open' ? (pool.model.snapshot?.workers ?? []) : [];
}

function isOurs(worker: PoolWorker): boolean {
  return worker.own && worker.state !== 'dead';
}

/** That of the active cell, or the only one, or the one that the user picks; null: the user picks none. */
async function chosen(
  pool: NotebookPool | null,
  title: string,
  fits: (worker: PoolWorker) => boolean
): Promise<PoolWorker | null> {
  const workers = workersOf(pool).filter(fits);
  const ofCell = workers.find(worker => worker.running?.cell === activeCell(pool)?.model.id);
  if (ofCell !== undefined || workers.length < 2) {
    return ofCell ?? workers[0] ?? null;
  }
  const names = workers.map(({ uid, state, running }) =>
    [shortUid(uid), running?.label ?? state].join(' · ')
  );
  const answer = await InputDialog.getItem({ title, items: names, label: 'Worker' });
  return workers[names.indexOf(answer.value ?? '')] ?? null;
}
