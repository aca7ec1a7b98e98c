// Errors that end a command. Each is printed as one message, without a stack.

/** A valid command that failed: a model that is refused, a file that is missing or damaged. */
export class Failure extends Error {
  name = 'Failure';
  exitCode = 1;
}

/** Wrong usage: the command line must be changed. */
export class UsageError extends Error {
  name = 'UsageError';
  exitCode = 2;
}

/** A file whose content does not match its format: wrong magic, truncated, inconsistent. */
export class FormatError extends Failure {
  name = 'FormatError';
}
