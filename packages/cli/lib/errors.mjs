// What ends a command. Each is printed as one message, without a stack.

/** The command did what it was asked and failed: a model that is refused, a file that is missing or damaged. */
export class Failure extends Error {
  name = 'Failure';
  exitCode = 1;
}

/** The command line itself is wrong: what the user typed must change. */
export class UsageError extends Error {
  name = 'UsageError';
  exitCode = 2;
}

/** A file that is not what its name promises: wrong magic, truncated, inconsistent. */
export class FormatError extends Failure {
  name = 'FormatError';
}
