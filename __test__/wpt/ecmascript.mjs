// Methods of ECMAScript that test files use and Node 20 lacks.

/** `ArrayBuffer.prototype.transfer`, ECMAScript 2024. @this {ArrayBuffer} */
function transfer(newLength = this.byteLength) {
  const moved = structuredClone(this, { transfer: [this] });
  if (newLength === moved.byteLength) return moved;
  const result = new ArrayBuffer(newLength);
  new Uint8Array(result).set(new Uint8Array(moved, 0, Math.min(newLength, moved.byteLength)));
  return result;
}

/** `get ArrayBuffer.prototype.detached`, ECMAScript 2024. @this {ArrayBuffer} */
function isDetached() {
  try {
    return new Uint8Array(this) === undefined;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return true;
  }
}

/** `Set.prototype.difference`, ECMAScript 2025. @this {Set<unknown>} */
function difference(other) {
  return new Set([...this].filter((value) => !other.has(value)));
}

/** Defines those of the methods that the engine does not have. */
export function installMissingMethods() {
  for (const { prototype, method } of [
    { prototype: ArrayBuffer.prototype, method: transfer },
    { prototype: Set.prototype, method: difference },
  ]) {
    if (!(method.name in prototype)) {
      Object.defineProperty(prototype, method.name, { value: method, writable: true, configurable: true });
    }
  }
  if (!('detached' in ArrayBuffer.prototype)) {
    Object.defineProperty(ArrayBuffer.prototype, 'detached', { get: isDetached, configurable: true });
  }
}
