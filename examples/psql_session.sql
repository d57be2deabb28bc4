CREATE TABLE people AS
SELECT g AS id, 18 + g * 7 % 70 AS age, (1000 + g * 7919 % 9000)::numeric(8,2) AS income,
       (ARRAY['asthma', 'diabetes', 'none'])[1 + g % 3] AS diagnosis
FROM generate_series(1, 1000) AS g;

SELECT rows_in, rows_out, classes, k_achieved, round(information_loss::numeric, 4) AS loss, verified
FROM dbanon.mdav('people', 'release.people', ARRAY['age','income'], k => 5,
                 sensitive => ARRAY['diagnosis']);

SELECT dbanon.k_anonymity('people', ARRAY['age','income']) AS before,
       dbanon.k_anonymity('release.people', ARRAY['age','income']) AS after;

SELECT * FROM dbanon.equivalence_classes('release.people', ARRAY['age','income']);

SELECT k_requested, suppressed, histogram, highest_risk FROM release.people_summary;

SELECT (dbanon.verify('release.people')).unchanged;

CREATE TABLE patients AS
SELECT g AS id, 18 + g * 37 % 61 AS age,
       (ARRAY['primary', 'secondary', 'bachelor', 'master', 'doctor'])[1 + g * 7919 / 11 % 5] AS education,
       (ARRAY['asthma', 'diabetes', 'flu', 'none'])[1 + g * 31 / 7 % 4] AS diagnosis
FROM generate_series(1, 150) AS g;

CREATE SCHEMA ref;
CREATE TABLE ref.education_tree (child text, parent text);
INSERT INTO ref.education_tree VALUES
    ('primary', 'school'), ('secondary', 'school'), ('bachelor', 'university'),
    ('master', 'university'), ('doctor', 'university'), ('school', '*'), ('university', '*');

SELECT rows_out, classes, k_achieved, round(information_loss::numeric, 4) AS loss, verified
FROM dbanon.gaa_cp('patients', 'release.patients', ARRAY['age','education'], k => 5,
                   sensitive => ARRAY['diagnosis'],
                   hierarchies => '{"education": {"table": "ref.education_tree"}}',
                   options => '{"l_diversity": {"diagnosis": 3}, "weights": {"age": 3},
                               "refine": "fast"}');

SELECT age, education, count(*) AS rows, count(DISTINCT diagnosis) AS diagnoses
FROM release.patients GROUP BY age, education ORDER BY age, education LIMIT 5;

SELECT min(rows) AS k, min(diagnoses) AS l
FROM (SELECT count(*) AS rows, count(DISTINCT diagnosis) AS diagnoses
      FROM release.patients GROUP BY age, education) AS classes;

SELECT dbanon.mdav('people', 'release.people', ARRAY['age','income'], k => 5);

SELECT dbanon.mdav('people', 'release.more', ARRAY['age','incom'], k => 5);
