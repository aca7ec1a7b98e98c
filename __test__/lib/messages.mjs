// The rule for messages of errors, docs/errors.md#messages, as a check of messages and of the strings in the source that
// they are made of.

/** Stands for an inserted value in a string of the source. */
const VALUE = '¤';

/** Nouns that follow numbers. */
const NOUN = '(argument|byte|channel|character|dimension|element|input|node|output|sample|term|value)';

/** What a message must not have, outside of quoted names. */
const FAULTS = {
  'a name in single quotes': /(^|[\s([])'[^']*'/,
  'a noun that does not agree with its number': new RegExp(`\\b1 ${NOUN}s\\b|(^|[^.\\d])(0|[2-9]|\\d{2,}) ${NOUN}\\b`),
  'a number before a noun that never changes': new RegExp(`(?<!-|\\w|more than |at most |at least |the )${VALUE} ${NOUN}s\\b`),
  'a wrong article': /\b[Aa] (?=[aeioAEIO]|ML)(?!one\b)|\b[Aa]n (?!"|[aeiouAEIOU]|ML|[A-Z]{2}|¤)/,
  'an article before a name that may need the other one': /\ban? ¤/,
  'punctuation at its end': /(?<!\.\.)[.,:;]$/,
  'punctuation twice': /::|: :|,,| ,| {2}\S/,
  "the system's number of an error": /\(os error/,
};

/**
 * @param {string} message that of an unsupported model has one line per node
 * @returns {string[]} what is wrong with it
 */
export function faultsOf(message) {
  const [line] = message.split('\n');
  const unquoted = line.replace(/"[^"]*"/g, '""').replace(/^\[[^\]]*\]/, '[]');
  return Object.entries(FAULTS).flatMap(([fault, pattern]) => (pattern.test(unquoted) ? [`${fault}: ${line}`] : []));
}

/**
 * @param {string} message of an error about an argument
 * @returns {string[]} what is wrong with it
 */
export const faultsOfArgument = (message) => [
  ...faultsOf(message),
  ...(/^[a-z]\w+: /.test(message) ? [] : [`does not begin with the function: ${message}`]),
  ...(/, expected /.test(message) ? [] : [`does not say what was expected: ${message}`]),
];

/** Messages in JavaScript: strings passed to a function that creates an error. */
const IN_JAVASCRIPT = /(?:Error|Failure|dataError|invalid)\((?:'\w+', )?(?:`((?:[^`\\]|\\.)*)`|'((?:[^'\\\n]|\\.)*)')/g;

/** The format strings of the Rust sources. Most of them are error messages. */
const IN_RUST = /format(?:_args)?!\(\s*"((?:[^"\\]|\\[^])*)"/g;

/** Programs, of shaders and graphs. */
const CODE = /[;}\n]$|\\n|^%/;

/** Values in JavaScript. Constants, which are written in capitals, do not change. */
const JAVASCRIPT_VALUE = /\$\{([^{}]|\{[^{}]*\})*\}/g;

/** Values in Rust. */
const RUST_VALUE = /\{[^{}]*\}/g;

const inserted = (/** @type {string} */ value) => (/^\$?\{[A-Z_]+\}$/.test(value) ? 'N' : VALUE);

/**
 * @param {string} source of a module
 * @param {boolean} isRust
 * @returns {string[]} what is wrong with the messages in it
 */
export function faultsInSource(source, isRust) {
  if (!isRust)
    return [...source.matchAll(IN_JAVASCRIPT)].flatMap(([, a, b]) => {
      const message = (a ?? b).replace(JAVASCRIPT_VALUE, inserted);
      // A string within a string ends early.
      return message.includes('${') ? [] : faultsOf(message);
    });
  const program = source.replace(/^( *)#\[cfg\(test\)\]\n\1mod \w+ \{\n[^]*?^\1\}$/gm, '').replace(/^\s*\/\/.*$/gm, '');
  return [...program.matchAll(IN_RUST)]
    .filter(([, text]) => !CODE.test(text))
    .flatMap(([, text]) =>
      faultsOf(
        text
          .replace(/\\\n\s*/g, '')
          .replaceAll('\\"', '"')
          .replaceAll(/\{\{|\}\}/g, '')
          .replace(RUST_VALUE, inserted),
      ),
    );
}
