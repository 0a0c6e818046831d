"""Any known response line, of ours or of another tool, as facts that can be counted.

`decode_response_line` never raises and never invents a number: what a line does not state is None, and a line of no
known shape is a `BadLine` that says why. The rules that hold for every shape:

* **Id**: the first of ``sample_id``, ``custom_id``, ``id``, ``conversation_id``, ``question_id``, ``primary_id``,
  ``_async_position`` that is not null or empty, the outermost object first; ``meta_info.id``, which a server makes up,
  last. A line without any has the key None. A second and third generation of one id in one line get ``#1`` and ``#2``.
* **Counts**: top level, then ``usage``, ``meta_info``, ``num_generated_tokens``, ``metadata.usage``, the sum of
  ``choices[].new_tokens``; likewise below ``response``, ``response.body`` and ``raw``. Details such as
  ``reasoning_tokens`` are inside the total and never added. A count that is no whole number from 0 to 2147483647 makes
  the line a `BadLine`.
* **Zero**: 0 tokens beside a text and no ids means that nobody counted: unknown. 0 without any text is true (SGLang's
  ``"output_ids": []``), and 0 beside ids stays, as a contradiction to be shown.
* **End**: a ``finish_reason`` that is there but null or empty is an answer cut short (`Outcome.INCOMPLETE`);
  ``abort`` and ``error`` are failures whatever else the line says; no finish reason at all is accepted.
* **Choices**: several ``choices`` with one common usage are one response.
* **Wrapped answers**: what ``response``, ``response.body`` or ``raw`` holds is read unless the outer object states a
  count itself; an ``error``, a ``status`` or an HTTP ``status_code`` from 400 around it makes it a failure.
* **Evidence**: an object with neither a count, nor ids, nor a place for text, nor an error is of no known shape, even
  when it has an id or says ``"status": "success"``: a producer that renames its keys must be noticed.
* **Text**: only looked at for being there. It must be UTF-8; a lone half of a surrogate pair, written as an escape, is
  accepted, and so is ``NaN`` outside of counts.
"""

from contracts.shapes.decode import decode_response_line
from contracts.shapes.facts import BadLine, Outcome, ResponseFact, merge_parts

__all__ = ["BadLine", "Outcome", "ResponseFact", "decode_response_line", "merge_parts"]
