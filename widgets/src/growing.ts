// Typed arrays that grow: doubled when they are full, so that a million appends copy each number about once.

export type NumberArray = Float64Array | Float32Array | Int32Array | Uint32Array | Uint16Array | Uint8Array;

/** The array, or a longer copy of it, that has room for `length` elements. */
export function withRoom<A extends NumberArray>(array: A, length: number): A {
  if (array.length >= length) return array;
  const longer = new (array.constructor as new (length: number) => A)(Math.max(length, array.length * 2, 64));
  longer.set(array);
  return longer;
}
