// A number as people enter it: with a point, or with a comma for one.
//
// Widgets write two thousand as "2,000". So a comma before three digits may stand between thousands or for a point; such a number is refused.

const THOUSANDS = /^([1-9]\d{0,2}(?:,\d{3})+)(?:\.\d*)?$/;

/** Why a number is refused that can be read in two ways: what to write in its place; "" for any other text. */
export function twoReadings(text: string): string {
  const found = THOUSANDS.exec(text.trim());
  if (!found) return "";
  const whole = text.trim().replaceAll(",", "");
  const parts = found[1].split(",");
  const point = parts.length === 2 && found[0] === found[1] ? ` or ${parts.join(".")}` : "";
  return `write ${whole}${point} without a comma`;
}

/** The number that was entered; NaN where it is none, or can be read in two ways. */
export function enteredNumber(text: string): number {
  return twoReadings(text) ? NaN : Number(text.trim().replace(",", "."));
}
