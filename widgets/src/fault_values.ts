// What was entered for a fault, checked against what its parameters declare. The words are those of the engine's errors.

import { enteredNumber, twoReadings } from "./entered_number.ts";
import type { Fault, FaultKind, Parameter } from "./lab_types.ts";

export type Entry = string | boolean | readonly string[];
export type Entries = Readonly<Record<string, Entry | undefined>>;
export type Checked = { readonly value: unknown } | { readonly problem: string };

const FIRST_KINDS = ["crash", "pause", "slow", "lose_host"]; // what people try first

/** Kinds of faults as a menu lists them: the usual ones, then the others in the order in which they came. */
export function inOrder(kinds: readonly FaultKind[]): readonly FaultKind[] {
  const rank = ({ kind }: FaultKind): number => (FIRST_KINDS.includes(kind) ? FIRST_KINDS.indexOf(kind) : FIRST_KINDS.length);
  return [...kinds].sort((a, b) => rank(a) - rank(b));
}

/** What a number may be, in words: "0 or more s". */
export function bounds({ at_least, above, at_most, below, whole, unit }: Parameter): string {
  const limits = [
    ...(at_least !== null ? [`${at_least} or more`] : []),
    ...(above !== null ? [`more than ${above}`] : []),
    ...(at_most !== null ? [`at most ${short(at_most)}`] : []),
    ...(below !== null ? [`less than ${short(below)}`] : []),
  ];
  const text = (limits.join(", and ") || "any number") + (unit ? ` ${unit}` : "");
  return whole ? `a whole number, ${text}` : text;
}

/** A number as Python writes it: 1e+15, where JavaScript has all zeros. */
function short(value: number): string {
  return Math.abs(value) >= 1e9 ? value.toExponential() : String(value);
}

/** The value of one parameter; null where it is optional and nothing was entered. */
export function check(parameter: Parameter, entry: Entry | undefined): Checked {
  const { type, optional, name } = parameter;
  if (type === "switch") return { value: entry === true };
  const isEmpty = entry === undefined || entry === "" || (Array.isArray(entry) && entry.length === 0);
  if (isEmpty) return optional ? { value: null } : { problem: `${name} is missing: ${parameter.says}.` };
  if (type === "number") return checkNumber(parameter, String(entry));
  if (type === "tasks") return { value: Array.isArray(entry) ? entry : String(entry).split(/[,\s]+/).filter(Boolean) };
  if (type === "choice" && !parameter.choices.includes(String(entry))) {
    return { problem: `${name} must be one of ${parameter.choices.join(", ")}.` };
  }
  return { value: entry };
}

function checkNumber(parameter: Parameter, text: string): Checked {
  const { name, at_least, above, at_most, below, whole } = parameter;
  const ambiguous = twoReadings(text);
  if (ambiguous) return { problem: `${name} is ${text.trim()}, which can be read in two ways: ${ambiguous}.` };
  const value = enteredNumber(text);
  const holds =
    Number.isFinite(value) &&
    (!whole || Number.isInteger(value)) &&
    (at_least === null || value >= at_least) &&
    (above === null || value > above) &&
    (at_most === null || value <= at_most) &&
    (below === null || value < below);
  return holds ? { value } : { problem: `${name} must be ${bounds(parameter)}.` };
}

/** The fault that was entered, or the first thing that is wrong with it and the parameter it is about. */
export function faultOf(
  { kind, parameters }: FaultKind,
  triggers: readonly Parameter[],
  entries: Entries,
): { readonly fault: Fault } | { readonly problem: string; readonly name: string } {
  const values: Record<string, unknown> = { kind };
  for (const parameter of [...parameters, ...triggers]) {
    const checked = check(parameter, entries[parameter.name]);
    if ("problem" in checked) return { problem: checked.problem, name: parameter.name };
    const isLeftOut = checked.value === null || (parameter.optional && checked.value === parameter.default);
    if (!isLeftOut) values[parameter.name] = checked.value;
  }
  return { fault: values as Fault };
}

/** What a form shows first: the defaults, and `given`. */
export function firstEntries(parameters: readonly Parameter[], given: Readonly<Record<string, unknown>> = {}): Record<string, Entry> {
  const entries: Record<string, Entry> = {};
  for (const { name, type, default: usual } of parameters) {
    const value = given[name] ?? usual;
    if (type === "switch") entries[name] = value === true;
    else if (type === "tasks") entries[name] = Array.isArray(value) ? value.map(String) : value ? [String(value)] : [];
    else entries[name] = value === null || value === undefined ? "" : String(value);
  }
  return entries;
}

/** Whether a fault of this kind can begin at once: nothing is missing with these entries. */
export function isComplete(kind: FaultKind, entries: Entries): boolean {
  return "fault" in faultOf(kind, [], entries);
}

/** The first parameter that names a task, by which a fault can be chosen on the picture of that task. */
export function taskParameter({ parameters }: FaultKind): Parameter | undefined {
  return parameters.find(({ type }) => type === "task") ?? parameters.find(({ type }) => type === "tasks");
}
