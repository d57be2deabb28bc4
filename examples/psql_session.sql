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

SELECT dbanon.mdav('people', 'release.people', ARRAY['age','income'], k => 5);

SELECT dbanon.mdav('people', 'release.more', ARRAY['age','diagnosis'], k => 5);
