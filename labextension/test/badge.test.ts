import { expect, test } from 'vitest';
import { Badge } from '../src/view/badge';
import { golden } from './golden';

const NOW = 1_764_450_551.25; // of the golden files

test.each([
  ['two-workers', 'b2d93e77', 'worker d3270c31 · running · 51 s · 54.5 MB in'],
  ['two-workers', '6a1f0c4e', 'worker d3270c31 · ok · 19.5 s · 1.05 MB in · 2.05 kB out'],
  ['starting', 'b2d93e77', 'wool · waits for a worker · 0 s'],
  ['dead', 'b2d93e77', 'worker d3270c31 · died · 48.8 s · 54.5 MB in'],
  ['borrowed', '6a1f0c4e', 'worker d3270c31 · interrupted · 19.5 s · 1.02 kB in · 2.05 kB out'],
  ['failed', '6a1f0c4e', 'wool · error · 2.0 s']
])('of %s, the badge of cell %s says: %s', (name, cell, words) => {
  const run = golden(name).cells.find(each => each.cell === cell);
  if (run === undefined) {
    throw new Error(`${name} has no cell ${cell}`);
  }
  const badge = new Badge(run);
  badge.show(run);
  badge.tick(NOW);
  expect(badge.node.textContent).toBe(words);
  expect(badge.node.dataset.state).toBe(run.state);
  expect(badge.goesOn).toBe(run.ended === null);
});
