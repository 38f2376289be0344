package app

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// tenLines is the main of another module.
const tenLines = `package main

import (
	"pawl/app"

	"example.com/kitchen/recipe"
)

func main() {
	app.Main(app.Graph(recipe.Graph()))
}
`

const recipe = `package recipe

import (
	"context"

	"pawl"
)

type Order struct {
	Dish string ` + "`json:\"dish\"`" + `
}

func Graph() *pawl.Graph[Order, Order, Order] {
	g := pawl.New[Order, Order, Order]("kitchen", pawl.Options{Version: "1", Positional: []string{"dish"}})
	cook := g.Node("cook", func(ctx context.Context, o Order) (Order, error) {
		with, err := pawl.Ask[string](ctx, "with", pawl.Question{Text: "With what?"})
		o.Dish += " with " + with
		return o, err
	})
	g.Start(cook, func(o Order) (Order, error) { return o, nil })
	g.From(cook).Otherwise(g.Succeed("SERVED"))
	g.Finish(func(o Order, _ pawl.Ending) (Order, error) { return o, nil })
	return g
}
`

// TestLongOtherModule: a main of ten lines in another module has the whole command line with its own workflow.
func TestLongOtherModule(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": tenLines, "recipe/recipe.go": recipe, "go.mod": otherMod(t, root), "go.sum": read(t, filepath.Join(root, "go.sum"))} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "kitchen")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false", "GOPROXY=off", "GOWORK=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	env := append(os.Environ(), "XDG_DATA_HOME="+dir, "LocalAppData="+dir, "HOME="+dir, "XDG_CONFIG_HOME="+dir)
	do := func(code int, args ...string) told {
		t.Helper()
		var out, say bytes.Buffer
		cmd := exec.Command(program, args...)
		cmd.Env, cmd.Stdout, cmd.Stderr = env, &out, &say
		_ = cmd.Run()
		got := told{cmd.ProcessState.ExitCode(), out.String(), say.String()}
		if got.code != code {
			t.Fatalf("%q: %+v", args, got)
		}
		return got
	}
	asked := do(exitWaiting, "run", "kitchen", "pea", "soup")
	_, command, ok := strings.Cut(asked.err, "answer it with: "+program+" ")
	if words := strings.Fields(command); !ok || len(words) != 5 {
		t.Error(asked)
	} else if got := do(0, append(words[:4], "bread")...); !strings.Contains(got.out, `"pea soup with bread"`) {
		t.Error(got)
	}
	do(0, "graph", "kitchen")
	do(0, "doctor")
	if got := do(exitUsage, "nonsense"); !strings.HasPrefix(got.err, "kitchen: ") {
		t.Error(got)
	}
}

// otherMod requires what this module does, in its versions: nothing has to be looked up.
func otherMod(t *testing.T, root string) string {
	lines := strings.Split(read(t, filepath.Join(root, "go.mod")), "\n")
	lines[0] = "module example.com/kitchen"
	return strings.Join(lines, "\n") + "\nrequire pawl v0.0.0\n\nreplace pawl => " + filepath.ToSlash(root) + "\n"
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
