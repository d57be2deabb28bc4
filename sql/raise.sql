    -- The error that a function in Python handed back: its own text, no traceback. Raised here, as the
    -- CONTEXT would name a function of its own beside the one that was called.
    IF outcome ? 'error' THEN
        outcome := outcome -> 'error';
        -- An empty detail or hint would be shown as an empty line.
        IF outcome ->> 'detail' IS NULL AND outcome ->> 'hint' IS NULL THEN
            RAISE EXCEPTION USING
                ERRCODE = outcome ->> 'sqlstate', MESSAGE = outcome ->> 'message';
        ELSIF outcome ->> 'detail' IS NULL THEN
            RAISE EXCEPTION USING
                ERRCODE = outcome ->> 'sqlstate', MESSAGE = outcome ->> 'message',
                HINT = outcome ->> 'hint';
        END IF;
        RAISE EXCEPTION USING
            ERRCODE = outcome ->> 'sqlstate', MESSAGE = outcome ->> 'message',
            DETAIL = outcome ->> 'detail',
            HINT = coalesce(outcome ->> 'hint', 'See dbanon.help().');
    END IF;
