{#
  data_tests:
    - k_anonymity: {arguments: {quasi_identifiers: [age, income], k: 5}}

  Fails where fewer than k rows share their values, of a model, a source or a view that dbanon has
  released. NULL counts as a value, as it does when dbanon counts a release. What fails is told by the
  number of its rows: no value goes into a log, nor into the table of `--store-failures`.
#}
{% test k_anonymity(model, quasi_identifiers, k) %}
  {%- if quasi_identifiers is string or quasi_identifiers is not sequence or not quasi_identifiers -%}
    {%- do exceptions.raise_compiler_error('k_anonymity: quasi_identifiers must be a list of columns') -%}
  {%- elif k is not integer or k < 2 -%}
    {%- do exceptions.raise_compiler_error('k_anonymity: k must be a whole number, 2 or more') -%}
  {%- endif -%}
  {%- set columns = [] -%}
  {%- for name in quasi_identifiers -%}
    {%- do columns.append(adapter.quote(name)) -%}
  {%- endfor -%}
  SELECT count(*) AS class_size
  FROM {{ model }}
  GROUP BY {{ columns | join(', ') }}
  HAVING count(*) < {{ k }}
{% endtest %}
