// Command rules lists which rules of the specification are cited by which tests, so that one can see
// what is and is not covered. Run it with `make rules`.
//
// A test cites a rule in its name (TestNP_11_..., TestNP11...), in a comment on or in the test, in any
// string of a test file, such as a subtest name or a table key, in the name of a file under testdata or
// cases, or on a line of such a file that says "rule" ("rule: NP-11", "# rules L-03, L-04"). A range,
// S-075..S-090, cites all between. A comment in a test file or doc.go that says "cannot be tested here"
// and goes on with a list, "- A04, S-144: the reason", excepts its rules; they are listed apart.
package main
