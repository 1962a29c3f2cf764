const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'] as const;
const STEP = 1000;

/** Whole seconds, for what still goes on; a clock that runs behind shows 0 s. */
export function elapsed(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < MINUTE) {
    return `${whole} s`;
  }
  if (whole < HOUR) {
    return `${Math.floor(whole / MINUTE)} min ${whole % MINUTE} s`;
  }
  if (whole < DAY) {
    return `${Math.floor(whole / HOUR)} h ${Math.floor((whole % HOUR) / MINUTE)} min`;
  }
  return `${Math.floor(whole / DAY)} d ${Math.floor((whole % DAY) / HOUR)} h`;
}

/** Of what has ended: short times in tenths, where they tell something. */
export function took(seconds: number): string {
  return seconds < MINUTE ? `${Math.max(0, seconds).toFixed(1)} s` : elapsed(seconds);
}

/** Of what people count in minutes: `<1 min`, `9 min`, `3 h 2 min`. */
export function age(seconds: number): string {
  if (seconds < MINUTE) {
    return '<1 min';
  }
  return seconds < HOUR ? `${Math.floor(seconds / MINUTE)} min` : elapsed(seconds);
}

/** Three digits: `0 B`, `2.05 kB`, `184 MB`. */
export function bytes(size: number): string {
  const power = size < 1 ? 0 : Math.min(Math.floor(Math.log10(size) / 3), UNITS.length - 1);
  const value = size / STEP ** power;
  const digits = power === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${UNITS[power] ?? 'B'}`;
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** As everywhere in this product: the first eight digits. */
export function shortUid(uid: string): string {
  return uid.slice(0, 8);
}

/** `1 worker`, `2 workers`. */
export function count(number: number, one: string): string {
  return `${number} ${one}${number === 1 ? '' : 's'}`;
}

/** What the kernel says of a worker goes on after its name; alone, it is a sentence. */
export function sentence(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Stays on one line. */
export function unbroken(words: string): string {
  return words.replaceAll(' ', '\u00a0');
}
