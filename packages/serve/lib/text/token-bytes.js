// The bytes of a token, which can be parts of characters.

/** A token for a byte, where a vocabulary has no other for a character. */
const BYTE = /^<0x([0-9A-Fa-f]{2})>$/;

/** The bytes by the characters that stand for them in byte-level vocabularies: their own where it can be printed, others from 256 on. */
const BYTES = new Map(
  (() => {
    const isPrintable = (/** @type {number} */ byte) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
    let other = 256;
    return Array.from({ length: 256 }, (_, byte) => /** @type {const} */ ([String.fromCharCode(isPrintable(byte) ? byte : other++), byte]));
  })(),
);

/**
 * The kinds of a tokenizer's decoders.
 * @param {any} decoder of tokenizer.json
 * @returns {string[]}
 */
const kindsOf = (decoder) => (decoder?.type === 'Sequence' ? decoder.decoders.flatMap(kindsOf) : [decoder?.type]);

/**
 * What gives the bytes of tokens. Those of a text's tokens, one behind the other, are those of the text.
 * @param {import('@huggingface/tokenizers').Tokenizer} tokenizer
 * @param {any} file its tokenizer.json
 * @returns {(id: number) => Uint8Array} empty for tokens that the vocabulary does not have
 */
export function tokenBytes(tokenizer, file) {
  const kinds = kindsOf(file.decoder);
  const added = new Set((file.added_tokens ?? []).map((/** @type {any} */ { id }) => id));
  const decode = (/** @type {number[]} */ ids) => tokenizer.decode(ids, { skip_special_tokens: false, clean_up_tokenization_spaces: false });
  return (id) => {
    const token = tokenizer.id_to_token(id);
    if (token === undefined) return new Uint8Array(0);
    if (added.has(id)) return Buffer.from(token);
    if (kinds.includes('ByteLevel')) {
      const bytes = [...token].map((character) => BYTES.get(character));
      if (!bytes.includes(undefined)) return Uint8Array.from(/** @type {number[]} */ (bytes));
    }
    const [, byte] = BYTE.exec(token) ?? [];
    if (byte !== undefined && kinds.includes('ByteFallback')) return Uint8Array.of(Number.parseInt(byte, 16));
    // Some decoders leave out a space before the first token: as the second one, a token has all of its text.
    return Buffer.from(decode([id, id]).slice(decode([id]).length));
  };
}
