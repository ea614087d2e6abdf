/* SPDX-License-Identifier: Apache-2.0 */
/* The values that templates read of a JSON body, of an item and of the environment. */
#include "core/template/template_priv.h"

const struct json *template_json_at(const struct template_facts *facts, struct slice pointer)
{
    bool is_json = facts->payload && facts->payload->kind == PAYLOAD_IS_JSON;
    return is_json ? json_at(facts->payload->json, pointer) : NULL;
}

struct slice template_env_value(const struct template_facts *facts,
                                const struct template_part *part)
{
    return slice_of(facts->env ? facts->env(part->text.at) : NULL);
}
