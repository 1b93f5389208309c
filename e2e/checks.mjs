// A list of checks that run in order. Each prints one result line, which `cargo xtask e2e` counts.

const checks = [];

/** Registers a check. The sentence says what holds if it passes. */
export function check(sentence, action) {
  checks.push({ sentence, action });
}

/** Waits until the condition gives something true, and answers with that. */
export async function eventually(condition, what, seconds = 10) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const result = await condition();
    if (result) return result;
    if (Date.now() > deadline) throw new Error(`not within ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Runs all checks and exits with 1 if one failed. */
export async function run() {
  let failed = 0;
  for (const { sentence, action } of checks) {
    try {
      await action();
      console.log(`ok ${sentence}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED ${sentence}\n    ${String(error.stack ?? error).replaceAll("\n", "\n    ")}`);
    }
  }
  process.exit(failed ? 1 : 0);
}
