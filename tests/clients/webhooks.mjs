// SPDX-License-Identifier: Apache-2.0
// The libraries of those who send webhooks: sign and verify what is given as JSON on standard
// input, {act, scheme, secret, id, seconds, body, headers}, and print what came of it.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.env.NODE_PATH + "/"));
const { Webhook } = require("standardwebhooks");
const stripe = new (require("stripe"))("sk_test");
const github = await import(pathToFileURL(
  process.env.NODE_PATH + "/@octokit/webhooks-methods/dist-node/index.js"));

const { act, scheme, secret, id, seconds, body, headers } = JSON.parse(readFileSync(0, "utf8"));
const done = {
  sign: {
    standard: () => new Webhook(secret).sign(id, new Date(seconds * 1000), body),
    stripe: () => stripe.webhooks.generateTestHeaderString(
      { payload: body, secret, timestamp: seconds }),
    github: () => github.sign(secret, body),
  },
  verify: {
    standard: () => JSON.stringify(new Webhook(secret).verify(body, headers)),
    stripe: () => JSON.stringify(
      stripe.webhooks.constructEvent(body, headers["Stripe-Signature"], secret)),
    github: async () => {
      if (!(await github.verify(secret, body, headers["X-Hub-Signature-256"])))
        throw new Error("it is not verified");
      return body;
    },
  },
};
process.stdout.write(await done[act][scheme]());
