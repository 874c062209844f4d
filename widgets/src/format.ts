// Numbers as people read them: seconds with a fitting unit, bytes in powers of 1024, counts with separators.

const TIME_UNITS: readonly [number, string][] = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
];

const NANOSECONDS_SHOWN = 1e-6; // seconds of a view, whose digits are nanoseconds

/** A length of time to four significant digits: 0.0123456 is "12.35 ms". */
export function formatDuration(seconds: number): string {
  if (!(seconds > 0)) return "0 s";
  const [unit, name] = TIME_UNITS.find(([size]) => seconds >= size * 0.9999) ?? TIME_UNITS[3];
  const value = seconds / unit;
  return value >= 1000 ? `${value.toFixed(0)} ${name}` : `${trimZeros(value.toPrecision(4))} ${name}`;
}

/** A moment of virtual time, to the nanosecond: 12.3456780001 is "12.345678 s". */
export function formatMoment(seconds: number): string {
  return `${trimZeros(seconds.toFixed(9))} s`;
}

/** A moment in the unit that fits it, with no more digits than a view of `length` seconds shows: 0.00165 is "1.65 ms". */
export function formatMomentOf(seconds: number, length: number): string {
  const [unit, name] = TIME_UNITS.find(([size]) => Math.max(seconds, length) >= size * 0.9999) ?? TIME_UNITS[3];
  const digits = Math.min(9, Math.max(0, Math.ceil(3 - Math.log10(length / unit))));
  return `${trimZeros((seconds / unit).toFixed(digits))} ${name}`;
}

/** A moment in the unit that fits it, to the nanosecond: 0.0063551606 is "6.355161 ms". */
export function formatEvent(seconds: number): string {
  return seconds > 0 ? formatMomentOf(seconds, NANOSECONDS_SHOWN) : "0 s";
}

/** An amount of memory: 26214400 is "25.0 MiB". */
export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let index = 0;
  while (bytes >= 1023.95 && index < units.length - 1) {
    bytes /= 1024;
    index += 1;
  }
  return index === 0 ? `${bytes} B` : `${bytes.toFixed(1)} ${units[index]}`;
}

/** A count, with its noun in the right number: "1 fault", "12,000 spans". */
export function formatCount(count: number, noun: string): string {
  return `${count.toLocaleString("en-US")} ${count === 1 ? noun : plural(noun)}`;
}

function plural(noun: string): string {
  if (/[^aeiou]y$/.test(noun)) return `${noun.slice(0, -1)}ies`;
  return `${noun}${noun.endsWith("sh") ? "es" : "s"}`;
}

/** One fact of a span as text. */
export function formatFact(value: unknown): string {
  if (typeof value === "number") {
    return Number.isInteger(value) ? value.toLocaleString("en-US") : trimZeros(value.toPrecision(6));
  }
  return typeof value === "string" ? value : JSON.stringify(value);
}

function trimZeros(text: string): string {
  return text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text;
}
