// What tests need to know of the machine.

/** Whether Node runs with glibc. */
export const isGlibc =
  process.platform === 'linux' &&
  /** @type {{ header: { glibcVersionRuntime?: string } }} */ (process.report.getReport()).header.glibcVersionRuntime !== undefined;
