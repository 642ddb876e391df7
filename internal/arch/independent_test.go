package arch_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// independent reports whether a loop over a map obviously does the same in any order. Its body may
//
//   - delete from maps, and write to them: under the key of the loop, or the same constant for every key
//   - add to integers, take the larger or smaller of two, and set booleans, to one constant or with || and &&
//   - append to a list that is sorted later in the same function, not keeping the order of equal elements
//   - return, if it changes nothing: the same constants wherever it returns
//   - have variables and loops of its own, and conditions that do not read what it changes
//
// Calls in expressions are taken to have no effects.
func independent(info *types.Info, loop *ast.RangeStmt, above []ast.Node) bool {
	j := &judge{info: info, loop: loop, above: above, writes: map[string]int{}, constants: map[string]string{}}
	return j.block(loop.Body) && !j.readsWhatItWrites() && (!j.ends || len(j.writes) == len(j.constants)) && (j.returns == nil || len(j.writes) == 0)
}

// judge looks at one loop.
type judge struct {
	info      *types.Info
	loop      *ast.RangeStmt
	above     []ast.Node        // what the loop is in, outermost first
	writes    map[string]int    // variables of outside that it changes, and how often they are mentioned in doing so
	constants map[string]string // those of them that are booleans set to a constant
	returns   *string           // what it returns
	ends      bool              // it may end early
	inside    int               // loops and switches that a break would end instead
}

func (j *judge) block(b *ast.BlockStmt) bool { return b == nil || j.all(b.List) }

func (j *judge) all(list []ast.Stmt) bool {
	for _, s := range list {
		if !j.statement(s) {
			return false
		}
	}
	return true
}

func (j *judge) statement(s ast.Stmt) bool {
	switch s := s.(type) {
	case nil, *ast.EmptyStmt, *ast.DeclStmt:
		return true
	case *ast.BlockStmt:
		return j.block(s)
	case *ast.IfStmt:
		return j.statement(s.Init) && j.block(s.Body) && j.statement(s.Else)
	case *ast.SwitchStmt:
		return j.statement(s.Init) && j.within(s.Body)
	case *ast.CaseClause:
		return j.all(s.Body)
	case *ast.ForStmt:
		return j.statement(s.Init) && j.statement(s.Post) && j.within(s.Body)
	case *ast.RangeStmt:
		return (s.Tok == token.DEFINE || s.Tok == token.ILLEGAL) && j.within(s.Body)
	case *ast.BranchStmt:
		j.ends = j.ends || s.Tok == token.BREAK && j.inside == 0
		return s.Label == nil && (s.Tok == token.CONTINUE || s.Tok == token.BREAK)
	case *ast.ReturnStmt:
		return j.answer(s)
	case *ast.ExprStmt:
		call, is := s.X.(*ast.CallExpr)
		return is && calledFunc(j.info, call) == "delete" && j.wrote(call.Args[0], 1)
	case *ast.IncDecStmt:
		return j.own(s.X) || j.integer(s.X) && j.wrote(s.X, 1)
	case *ast.AssignStmt:
		return j.assign(s)
	}
	return false
}

func (j *judge) within(b *ast.BlockStmt) bool {
	j.inside++
	defer func() { j.inside-- }()
	return j.block(b)
}

// answer accepts returns of constants, the same everywhere.
func (j *judge) answer(s *ast.ReturnStmt) bool {
	text := ""
	for _, result := range s.Results {
		if !j.constant(result) {
			return false
		}
		text += types.ExprString(result) + ","
	}
	same := j.returns == nil || *j.returns == text
	j.returns = &text
	return same
}

func (j *judge) constant(x ast.Expr) bool {
	value := j.info.Types[x]
	literal, empty := ast.Unparen(x).(*ast.CompositeLit)
	return value.Value != nil || value.IsNil() || empty && len(literal.Elts) == 0
}

func (j *judge) assign(s *ast.AssignStmt) bool {
	for i, left := range s.Lhs {
		if name, is := left.(*ast.Ident); is && (name.Name == "_" || s.Tok == token.DEFINE) || j.own(left) {
			continue
		}
		if len(s.Lhs) != len(s.Rhs) || !j.change(left, s.Tok, s.Rhs[i]) {
			return false
		}
	}
	return true
}

// change accepts an assignment to something outside the loop.
func (j *judge) change(left ast.Expr, op token.Token, right ast.Expr) bool {
	if op == token.ADD_ASSIGN || op == token.SUB_ASSIGN || op == token.OR_ASSIGN {
		return j.integer(left) && j.wrote(left, 1)
	}
	if op != token.ASSIGN {
		return false
	}
	text := types.ExprString(left)
	if index, is := left.(*ast.IndexExpr); is && isMap(j.info.TypeOf(index.X)) {
		if j.isKey(index.Index) || j.constant(right) {
			return j.wrote(left, 1)
		}
	} else if value := j.info.Types[right].Value; value != nil && isBool(j.info.TypeOf(left)) {
		if before, set := j.constants[text]; set && before != value.String() {
			return false
		}
		j.constants[text] = value.String()
		return j.wrote(left, 1)
	}
	switch right := ast.Unparen(right).(type) {
	case *ast.BinaryExpr: // x = x || y
		return (right.Op == token.LOR || right.Op == token.LAND) && types.ExprString(leftmost(right)) == text && j.wrote(left, 2)
	case *ast.CallExpr:
		if len(right.Args) == 0 || types.ExprString(right.Args[0]) != text {
			return false
		}
		switch calledFunc(j.info, right) {
		case "max", "min":
			return j.wrote(left, 2)
		case "append":
			return j.sortedLater(text) && j.wrote(left, 2)
		}
	}
	return false
}

func leftmost(x *ast.BinaryExpr) ast.Expr {
	for {
		deeper, is := x.X.(*ast.BinaryExpr)
		if !is || deeper.Op != x.Op {
			return x.X
		}
		x = deeper
	}
}

// wrote notes that something outside is changed, and how often the change mentions it.
func (j *judge) wrote(x ast.Expr, mentions int) bool {
	if index, is := x.(*ast.IndexExpr); is {
		if x = index.X; j.isKey(index.Index) {
			mentions = 0
		}
	}
	j.writes[types.ExprString(x)] += mentions
	return true
}

// readsWhatItWrites reports whether the body mentions something it changes, other than in changing it: what it
// then does may depend on what was done before. To look in a map under the key of the loop is no mention.
func (j *judge) readsWhatItWrites() bool {
	mentions := map[string]int{}
	ast.PreorderStack(j.loop.Body, nil, func(n ast.Node, above []ast.Node) bool {
		x, is := n.(ast.Expr)
		if !is {
			return true
		}
		text := types.ExprString(x)
		if _, written := j.writes[text]; !written {
			return true
		}
		switch parent := above[len(above)-1].(type) {
		case *ast.IndexExpr:
			if parent.X == x && j.isKey(parent.Index) {
				return true
			}
		case *ast.SelectorExpr:
			if parent.Sel == x { // the field of something else
				return true
			}
		}
		mentions[text]++
		return true
	})
	for text, times := range j.writes {
		if mentions[text] > times {
			return true
		}
	}
	return false
}

// isKey reports whether an expression is the key of the loop, which is another one in each round.
func (j *judge) isKey(x ast.Expr) bool {
	key, named := j.loop.Key.(*ast.Ident)
	name, is := x.(*ast.Ident)
	return named && is && key.Name != "_" && j.info.ObjectOf(key) == j.info.ObjectOf(name)
}

// own reports whether an expression is a variable that the loop declares, or a field of one that is no pointer.
func (j *judge) own(x ast.Expr) bool {
	for {
		field, is := x.(*ast.SelectorExpr)
		if !is {
			break
		}
		if _, pointer := j.info.TypeOf(field.X).Underlying().(*types.Pointer); pointer {
			return false
		}
		x = field.X
	}
	name, is := x.(*ast.Ident)
	if !is {
		return false
	}
	object := j.info.ObjectOf(name)
	return object != nil && object.Pos() >= j.loop.Pos() && object.Pos() < j.loop.End()
}

func (j *judge) integer(x ast.Expr) bool {
	basic, is := j.info.TypeOf(x).Underlying().(*types.Basic)
	return is && basic.Info()&types.IsInteger != 0
}

func isBool(t types.Type) bool {
	basic, is := t.Underlying().(*types.Basic)
	return is && basic.Info()&types.IsBoolean != 0
}

// sortedLater reports whether the function sorts a list after the loop.
func (j *judge) sortedLater(list string) bool {
	for _, node := range slices.Backward(j.above) {
		var body *ast.BlockStmt
		switch f := node.(type) {
		case *ast.FuncDecl:
			body = f.Body
		case *ast.FuncLit:
			body = f.Body
		default:
			continue
		}
		found := false
		ast.Inspect(body, func(n ast.Node) bool {
			if call, is := n.(*ast.CallExpr); is && call.Pos() > j.loop.End() && len(call.Args) > 0 && types.ExprString(call.Args[0]) == list {
				switch calledFunc(j.info, call) {
				case "slices.Sort", "slices.SortFunc", "sort.Strings", "sort.Ints", "sort.Slice":
					found = true
				}
			}
			return true
		})
		return found
	}
	return false
}
