SELECT age, income, diagnosis
FROM {{ source('hospital', 'stay') }}
WHERE status = 'active'
