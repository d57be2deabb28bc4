-- dbanon.repair(accept_owners): attaches releases to their relations again.
--
-- After a dump was restored relations have other oids. A relation is taken for the release of its name
-- if it belongs to the role that published, has the recorded columns, and its rows have the recorded
-- digest; a view must show the released table alone. An administrator who may not read the rows goes
-- by its mark as well. Another owner is accepted by name. An entry whose
-- relation has another name or schema gets this name. Each is reported, and what is left, with the
-- reason. Only the ledger's owner and superusers write entries.
CREATE OR REPLACE FUNCTION dbanon.repair(accept_owners text[] DEFAULT '{}')
RETURNS TABLE (release_id uuid, output text, action text, reason text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    candidate record;
    digest text;
BEGIN
    IF repair.accept_owners IS NULL OR array_position(repair.accept_owners, NULL) IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'accept_owners must not be NULL.';
    END IF;
    PERFORM dbanon._require_ledger();
    IF NOT has_table_privilege('dbanon.release', 'UPDATE') THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'Entries of the ledger are repaired by its owner or a superuser.',
            HINT = 'Ask an administrator to run: dbanon repair';
    END IF;
    FOR candidate IN @CANDIDATES@
    LOOP
        release_id := candidate.release_id;
        output := format('%I.%I', candidate.shown_schema, candidate.shown_name);
        action := 'left';
        reason := CASE candidate.verdict
            WHEN 'columns' THEN 'its columns are not those that were released'
            WHEN 'view' THEN 'its view is another role''s, or shows something else'
            WHEN 'owner' THEN CASE WHEN candidate.owner <> ALL (repair.accept_owners)
                THEN format('it belongs to role %I, which did not publish it: accept_owners takes'
                            ' that name', candidate.owner) END
        END;
        digest := NULL;
        IF reason IS NULL AND candidate.verdict <> 'rename' THEN
            reason := CASE WHEN dbanon._compare_columns(candidate.read_oid::oid, release_id) IS NOT NULL
                           THEN 'its columns are not those that were released' END;
            IF reason IS NULL AND NOT candidate.is_readable THEN
                digest := 'not read by this role';
                reason := CASE WHEN NOT candidate.is_marked
                    THEN 'this role may not read its rows, and it does not bear the mark' END;
            ELSIF reason IS NULL THEN
                BEGIN
                    digest := dbanon._compare_rows(candidate.read_oid::oid, candidate.digest);
                    reason := CASE digest WHEN 'changed'
                        THEN 'its rows are not those that were released' END;
                EXCEPTION WHEN OTHERS THEN
                    -- Nobody stops the others by a table whose code would run. The text of an error
                    -- of the server may hold a value.
                    reason := format('its rows could not be compared (SQLSTATE %s)', SQLSTATE);
                END;
            END IF;
        END IF;
        IF reason IS NULL THEN
            @ATTACH@;
            action := CASE candidate.verdict WHEN 'rename' THEN 'renamed' ELSE 'attached' END;
            reason := CASE WHEN candidate.verdict = 'rename'
                THEN format('its entry named it %I.%I', candidate.output_schema, candidate.output_name)
                WHEN digest <> 'unchanged' THEN 'rows not compared: digest ' || digest
                ELSE 'its owner, columns and rows are those that were released' END;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.repair(text[]) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.repair(text[]) IS
'Attaches releases to their relations again, as after a dump was restored, and says what it did.
A relation must have the publisher as owner, the recorded columns, and rows of the recorded digest.
accept_owners: other roles whose relations may be releases. For the ledger''s owner and superusers.';
