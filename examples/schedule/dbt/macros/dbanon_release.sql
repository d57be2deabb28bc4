{#
  on-run-end: "{{ dbanon_release('people', ['age', 'income'], k=5, sensitive=['diagnosis']) }}"

  Releases a model as the view SCHEMA.MODEL, when dbt has built it and all that it was asked for.
  dbt runs on-run-end also after `test`, renders it after `compile` and `docs generate`, and does
  both when models or tests failed: then nothing is released. Nor is it where the model was not
  selected.

  No post-hook: that may run inside the model's transaction, and hold its locks.
#}
{% macro dbanon_release(model, quasi_identifiers, k=5, sensitive=[], schema='release') %}
  {%- if execute and flags.WHICH in ('run', 'build') -%}
    {%- set built, failed = [], [] -%}
    {%- for result in results -%}
      {%- if result.status not in ('success', 'pass', 'warn') -%}
        {%- do failed.append(result.node.name) -%}
      {%- elif result.node.resource_type == 'model' and result.node.name == model -%}
        {%- do built.append('"' ~ result.node.schema ~ '"."' ~ result.node.alias ~ '"') -%}
      {%- endif -%}
    {%- endfor -%}
    {%- if failed -%}
      {%- do log('No release of ' ~ model ~ ', as these failed: ' ~ failed | join(', '), info=True) -%}
    {%- elif not built -%}
      {%- do log('No release of ' ~ model ~ ': it was not built', info=True) -%}
    {%- else -%}
      {%- do log('Release of ' ~ model, info=True) -%}
      {{ adapter.dispatch('dbanon_call')(built[0], schema ~ '.' ~ model, quasi_identifiers, k, sensitive) }}
    {%- endif -%}
  {%- endif -%}
{% endmacro %}

{# The functions that `dbanon install` puts into a database. #}
{% macro postgres__dbanon_call(table, output, quasi_identifiers, k, sensitive) -%}
  SELECT dbanon.mdav('{{ table }}', '{{ output }}', '{{ dbanon_array(quasi_identifiers) }}',
    k => {{ k }}, sensitive => '{{ dbanon_array(sensitive) }}', if_exists => 'replace',
    options => '{"output_kind": "view"}')
{%- endmacro %}

{% macro dbanon_array(names) -%} {{ '{' ~ tojson(names)[1:-1] ~ '}' }} {%- endmacro %}

{# The function of dbanon_plugin.py. A DuckDB file has one process that writes: this one. #}
{% macro duckdb__dbanon_call(table, output, quasi_identifiers, k, sensitive) -%}
  SELECT dbanon_release('{{ tojson({
    "table": table, "output": output, "quasi_identifiers": quasi_identifiers, "k": k,
    "sensitive": sensitive, "if_exists": "replace", "output_kind": "view"
  }) }}')
{%- endmacro %}
