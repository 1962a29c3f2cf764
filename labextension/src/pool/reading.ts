/** Turns what came over a wire into a typed value, or throws a `TypeError` that names the place. */
export type Reader<T> = (value: unknown, path: string) => T;

export function text(value: unknown, path: string): string {
  return typeof value === 'string' ? value : refuse('a text', path);
}

export function number(value: unknown, path: string): number {
  return typeof value === 'number' ? value : refuse('a number', path);
}

export function flag(value: unknown, path: string): boolean {
  return typeof value === 'boolean' ? value : refuse('true or false', path);
}

export function oneOf<T extends string>(...words: readonly T[]): Reader<T> {
  return (value, path) => words.find(word => word === value) ?? refuse(`one of ${words.join(', ')}`, path);
}

export function nullable<T>(read: Reader<T>): Reader<T | null> {
  return (value, path) => (value === null ? null : read(value, path));
}

export function listOf<T>(read: Reader<T>): Reader<readonly T[]> {
  return (value, path) =>
    Array.isArray(value) ? value.map((item, i) => read(item, `${path}[${i}]`)) : refuse('a list', path);
}

/** Fields that are not named are left out: a newer kernel may send more. */
export function record<T extends Record<string, Reader<unknown>>>(
  fields: T
): Reader<{ readonly [K in keyof T]: ReturnType<T[K]> }> {
  return (value, path) => {
    if (!isObject(value)) {
      return refuse('an object', path);
    }
    const read = Object.entries(fields).map(([name, field]) => [name, field(value[name], `${path}.${name}`)]);
    return Object.fromEntries(read) as { [K in keyof T]: ReturnType<T[K]> };
  };
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function refuse(wanted: string, path: string): never {
  throw new TypeError(`${path} is not ${wanted}`);
}
