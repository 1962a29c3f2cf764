/// <reference types="vite/client" />
import { readSnapshot, Snapshot } from '../src/pool/snapshot';

const FILES = import.meta.glob<Record<string, unknown>>('../../tests/golden/snapshots/*.json', {
  eager: true,
  import: 'default'
});
const BY_NAME = new Map(
  Object.entries(FILES).map(([path, data]) => [/([\w-]+)\.json$/.exec(path)?.[1] ?? path, data])
);

/** The golden files, that the kernel's side is tested with, too. */
export const NAMES: readonly string[] = Array.from(BY_NAME.keys()).sort();

/** As the kernel's side has written it: plain JSON. */
export function raw(name: string): Record<string, unknown> {
  const data = BY_NAME.get(name);
  if (data === undefined) {
    throw new Error(`there is no golden file ${name}; there are ${NAMES.join(', ')}`);
  }
  return structuredClone(data);
}

export function golden(name: string): Snapshot {
  return readSnapshot(raw(name));
}
