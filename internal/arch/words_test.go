package arch_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Readers search for the words of Kubernetes, AWS and Go. These lists are the private words that the repository once
// had: a test that fails names the word of the field. Add a word when you replace it, not before.

// privateNames are words that no declared name contains, alone or between capitals, with what to say instead.
var privateNames = map[string]string{
	"homeless": "unschedulable, pending", "snub": "refusal", "snubs": "refusals", "wish": "preference", "wishes": "preferences",
	"tired": "backing off", "refuge": "candidate", "refuges": "candidates", "twin": "replacement, duplicate", "twins": "replacements, duplicates",
	"purse": "limits", "sale": "offering", "sales": "offerings", "sick": "unhealthy", "cure": "repair",
	"ask": "request, query", "asks": "requests, queries", "asked": "requested, queried", "asking": "requesting, querying",
	"answers": "responses, returns", "answered": "responded, received", "answering": "responding",
	"whoever": "caller, client", "somebody": "caller, client, user", "nobody": "none",
	"settle": "complete, apply", "settles": "completes", "remember": "record, cache", "remembers": "records",
	"remembered": "recorded, cached", "forgot": "dropped", "forgets": "drops", "told": "reported", "promised": "reserved, allocated",
}

// codes are names that are API.
var codes = []string{"PromisedBefore"}

// sharedNames are functions and methods of one word that could be anywhere: they say what is done only to their author.
var sharedNames = []string{
	"again", "answer", "carry", "fate", "forget", "hears", "judge", "left", "note", "rest", "settle", "still", "story", "tell", "tells",
}

// privatePhrases are not in comments, in texts of code, or on pages: in lower case, from the beginning of a word, with what to
// say instead.
var privatePhrases = []struct{ phrase, instead string }{
	{"homeless", "unschedulable, pending"},
	{"sold out", "insufficient capacity"},
	{"in vain", "even if it failed, best effort"},
	{"can be had", "is available"},
	{"cannot be had", "is not available"},
	{"spoken for", "reserved for, allocated to"},
	{"come true", "is as planned"},
	{"comes true", "is as planned"},
	{"came true", "was as planned"},
	{"of our own will", "voluntary"},
	{"of its own will", "voluntary"},
	{"node that goes", "terminating node"},
	{"nodes that go ", "terminating nodes"},
	{"going node", "terminating node"},
	{"somebody", "caller, client, user, operator"},
	{"whoever", "caller, client, user, operator"},
	{"who asks", "caller, client"},
	{"ask again", "try again, retry"},
	{"asked again", "repeated, retried"},
	{"controller is asked", "is queried, receives the request"},
	{"leader is asked", "is queried, receives the request"},
	{"controller cannot be asked", "does not respond"},
	{"leader cannot be asked", "does not respond"},
	{"ask the leader", "query the leader"},
	{"asks the leader", "queries the leader"},
	{"asks the controller", "queries the controller"},
	{"asks the api server", "requests from the API server"},
	{"answers questions", "responds to queries"},
	{"answers no questions", "does not respond to queries"},
	{"http state", "status code"},
	{"up to names", "except for names"},
	{"annotation of old", "deprecated annotation"},
	{"nothing in particular", "no-op, unchanged"},
	{"taken in,", "stored, read, processed"},
	{"taken in.", "stored, read, processed"},
	{"takes in a", "stores, reads, processes"},
	{"takes in the", "stores, reads, processes"},
	{"takes in what", "stores, reads, processes"},
}

// Some files hold such words for a reason.
var wordExceptions = map[string]string{
	"internal/arch/words_test.go": "the lists themselves",
	"docs/reference/reasons.md":   "codes are API",
}

// Names are made of words that readers search for.
func TestNamesAreWordsOfTheField(t *testing.T) {
	t.Parallel()
	for _, file := range repository(t).sources {
		if file.generated || wordExceptions[file.path] != "" {
			continue
		}
		for _, name := range declaredNames(file.syntax) {
			at := repository(t).fset.Position(name.Pos())
			if slices.ContainsFunc(codes, func(code string) bool { return strings.Contains(name.Name, code) }) {
				continue
			}
			for _, word := range wordsOf(name.Name) {
				if instead, private := privateNames[word]; private {
					t.Errorf("%s: %s has the private word %q; say %s", at, name.Name, word, instead)
				}
			}
		}
		for _, declared := range file.syntax.Decls {
			if f, is := declared.(*ast.FuncDecl); is && !file.test() && slices.Contains(sharedNames, f.Name.Name) {
				t.Errorf("%s: function %s cannot be searched for; say what it does to what", repository(t).fset.Position(f.Pos()), f.Name.Name)
			}
		}
	}
}

// Comments, texts and pages use the words of the field.
func TestTextsAreWordsOfTheField(t *testing.T) {
	t.Parallel()
	check := func(name, text string) {
		text = strings.ToLower(text)
		for _, p := range privatePhrases {
			for from := 0; ; {
				at := strings.Index(text[from:], p.phrase)
				if at < 0 {
					break
				}
				at, from = at+from, at+from+len(p.phrase)
				if before, _ := utf8.DecodeLastRuneInString(text[:at]); !unicode.IsLetter(before) {
					t.Errorf("%s:%d: %q; say %s", name, 1+strings.Count(text[:at], "\n"), p.phrase, p.instead)
				}
			}
		}
	}
	for _, file := range repository(t).sources {
		if file.generated || wordExceptions[file.path] != "" {
			continue
		}
		check(file.path, string(file.text))
	}
	for _, name := range repository(t).files {
		if strings.HasSuffix(name, ".md") && wordExceptions[name] == "" {
			check(name, readRoot(t, name))
		}
	}
}

// The checks see what they are for.
func TestPrivateWordsAreSeen(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"askLeader": {"ask", "leader"}, "isAskedNow": {"is", "asked", "now"}, "HTTPAnswers2": {"http", "answers2"}, "task": {"task"}, "S3Twin": {"s3", "twin"},
	} {
		if got := wordsOf(name); !slices.Equal(got, want) {
			t.Errorf("words of %s: %q, want %q", name, got, want)
		}
	}
}

// declaredNames are the names that a file declares: of types, functions, fields, parameters, constants and variables.
func declaredNames(file *ast.File) (out []*ast.Ident) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			out = append(out, node.Name)
		case *ast.TypeSpec:
			out = append(out, node.Name)
		case *ast.ValueSpec:
			out = append(out, node.Names...)
		case *ast.Field:
			out = append(out, node.Names...)
		case *ast.RangeStmt:
			out = appendIdents(out, node.Tok, node.Key, node.Value)
		case *ast.AssignStmt:
			out = appendIdents(out, node.Tok, node.Lhs...)
		}
		return true
	})
	return out
}

func appendIdents(out []*ast.Ident, tok token.Token, list ...ast.Expr) []*ast.Ident {
	if tok != token.DEFINE {
		return out
	}
	for _, e := range list {
		if name, is := e.(*ast.Ident); is {
			out = append(out, name)
		}
	}
	return out
}

// wordsOf splits a name at capitals and underscores, in lower case. A run of capitals is one word.
func wordsOf(name string) (out []string) {
	runes := []rune(name)
	begin := 0
	cut := func(end int) {
		if end > begin {
			out = append(out, strings.ToLower(string(runes[begin:end])))
		}
		begin = end
	}
	for i, r := range runes {
		switch {
		case r == '_':
			cut(i)
			begin = i + 1
		case i == 0 || !unicode.IsUpper(r):
		case !unicode.IsUpper(runes[i-1]), i+1 < len(runes) && unicode.IsLower(runes[i+1]):
			cut(i)
		}
	}
	cut(len(runes))
	return out
}
