package draw

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"pawl/internal/host"
)

// sketch builds a shape from lines such as "analyze -> retrieve: improved search ≤1/turn": nodes come into being when
// they are named, edges are tried in the order of the lines. "-!" is an error edge, "-?" an answer; an edge without a
// name is Otherwise. "≤n" and "≤n/turn" bound an edge.
func sketch(name string, lines string) host.Shape {
	s := host.Shape{Name: name, Version: "1"}
	node := func(name string) int {
		plain, outcome, _ := strings.Cut(name, "=")
		if i := s.Index(plain, outcome); i >= 0 {
			return i
		}
		s.Nodes = append(s.Nodes, host.Node{Name: plain, Outcome: outcome})
		return len(s.Nodes) - 1
	}
	for line := range strings.Lines(lines) {
		ends, label, _ := strings.Cut(strings.TrimSpace(line), ": ")
		part := strings.Fields(ends)
		if len(part) == 0 {
			continue
		}
		e := host.Edge{Name: label, To: -1}
		if name, bound, ok := strings.Cut(label, " ≤"); ok {
			e.Name = name
			_, _ = fmt.Sscan(strings.TrimSuffix(bound, "/turn"), &e.Max)
			e.PerTurn = strings.HasSuffix(bound, "/turn")
		}
		switch {
		case part[1] == "-?":
			e.Kind = host.OnAnswer
		case part[1] == "-!":
			e.Kind = host.OnError
		case label == "":
			e.Kind, e.Name = host.Otherwise, "otherwise"
		}
		for from := range strings.SplitSeq(part[0], ",") {
			i := node(from)
			e.To = node(part[2])
			if e.Kind == host.OnError {
				s.Nodes[i].Errors = append(s.Nodes[i].Errors, e)
			} else {
				s.Nodes[i].Edges = append(s.Nodes[i].Edges, e)
			}
		}
	}
	return s
}

// with changes one node of a sketch.
func with(s host.Shape, name string, change func(*host.Node)) host.Shape {
	for i := range s.Nodes {
		if s.Nodes[i].Name == name {
			change(&s.Nodes[i])
		}
	}
	return s
}

func ends(s host.Shape, kind host.Kind, names ...string) host.Shape {
	for _, name := range names {
		s = with(s, name, func(n *host.Node) { n.Kind = kind })
	}
	return s
}

func nco() host.Shape {
	s := sketch("nco", `
		expand -> retrieve
		retrieve -> analyze
		analyze -> retrieve: improved search ≤1/turn
		analyze -> user_info
		user_info -> MATCH_FOUND: match found
		user_info -? expand: clarified ≤3
		user_info -> MORE_INFO`)
	s.Budget = map[string]int64{"llm": 12, "usd": 250_000, "runtime": 600_000}
	s = with(s, "retrieve", func(n *host.Node) { n.Retry = host.Retry{Max: 3, First: time.Second, Factor: 4} })
	return ends(s, host.Succeed, "MATCH_FOUND", "MORE_INFO")
}

func reply() host.Shape {
	s := sketch("reply", `
		write -> judge
		judge -> SENT: good
		judge -> write: write again ≤3/turn
		judge -> person
		person -? write: advice ≤2
		person -> DROPPED
		write,judge -! DROPPED: out of budget`)
	s.Budget = map[string]int64{"llm": 12}
	return ends(ends(s, host.Succeed, "SENT"), host.Fail, "DROPPED")
}

func brain() host.Shape {
	s := sketch("brain", `
		initialize -> query_data_sources: data needed
		initialize,query_data_sources -> execute_tools: tools needed
		initialize,query_data_sources -> build_messages
		execute_tools -> build_messages
		build_messages -> call_provider
		call_provider -> validate_response
		validate_response -> finalize: good enough
		validate_response -> finalize: judge broken
		validate_response -> build_messages: try again ≤4
		validate_response -> finalize
		finalize -> completed: good enough
		finalize -> completed_with_errors`)
	return ends(s, host.Succeed, "completed", "completed_with_errors")
}

func visual() host.Shape {
	s := sketch("visualdegrees", `
		S0 -> S1
		S1 -> S6: direct edge
		S1 -> S2
		S2 -> S6: target seen
		S2 -> S7: frontier exhausted
		S2 -> S3
		S3 -> S4
		S4 -> S5: edge verified
		S4 -> S3: another candidate
		S4 -> S2
		S5 -> S6: target reached
		S5 -> S2: expand again
		S5 -> S7
		S1,S2,S3,S4,S5 -! S7: out of budget`)
	s.Budget = map[string]int64{"search": 500, "recognition": 5000, "llm": 500, "expansion": 500}
	s = with(s, "S3", func(n *host.Node) { n.Costs = map[string]int64{"expansion": 1} })
	return ends(ends(s, host.Succeed, "S6"), host.Fail, "S7")
}

func generate() host.Shape {
	s := sketch("retrieveorgenerate", `
		INITIATED -> INGESTING
		INGESTING -> FAILED: rejected
		INGESTING -> RETRIEVING
		RETRIEVING -> SUCCEEDED=hit: hit
		RETRIEVING -> GENERATING_SOLUTION
		GENERATING_SOLUTION -! SUCCEEDED=hit: near miss
		GENERATING_SOLUTION -> REGISTERING
		REGISTERING -> INDEXING
		INDEXING -> SUCCEEDED=new`)
	s.Budget = map[string]int64{"usd": 5_000_000}
	s = with(s, "GENERATING_SOLUTION", func(n *host.Node) { n.Kind, n.Child = host.Sub, "solve@1" })
	s = with(s, "REGISTERING", func(n *host.Node) { n.Retry.Max, n.Timeout = 5, 20*time.Minute })
	return ends(ends(s, host.Succeed, "SUCCEEDED"), host.Fail, "FAILED")
}

func qualify() host.Shape {
	s := sketch("qualifier", `
		nodeInitState -> nodeVisionStage1
		nodeVisionStage1 -> nodeStoreStateBeforeDetection
		nodeStoreStateBeforeDetection -> nodePrepareContentTypePrompt
		nodePrepareContentTypePrompt -> nodeDetectContentType
		nodeDetectContentType -> nodeMergeDetectionResult
		nodeMergeDetectionResult -> nodeVisionStage2: type-specific vision
		nodeMergeDetectionResult,nodeVisionStage2 -> nodeExtractEmail: email
		nodeMergeDetectionResult,nodeVisionStage2 -> nodeExtractJira: jira
		nodeMergeDetectionResult,nodeVisionStage2 -> nodeExtractConfluence: confluence
		nodeMergeDetectionResult,nodeVisionStage2 -> nodeExtractLog: log
		nodeMergeDetectionResult,nodeVisionStage2 -> nodeExtractGeneric
		nodeExtractEmail,nodeExtractJira,nodeExtractConfluence,nodeExtractLog,nodeExtractGeneric -> nodeCreateBaseNode
		nodeCreateBaseNode -> chunkLoop
		chunkLoop -> nodeRoute
		nodeRoute -> LIFT_UP: lift up
		nodeRoute -> DONE`)
	s = with(s, "chunkLoop", func(n *host.Node) { n.Kind, n.Child = host.Each, "qualifier.chunk@1" })
	return ends(s, host.Succeed, "DONE", "LIFT_UP")
}

// hostile is a graph whose names try everything.
func hostile() host.Shape {
	s := sketch("x", "a -> b: first\na -> b\na -! c: third\nb -> b: again ≤2\nb -> c")
	s.Name = "]]>--><script>alert(1)</script>\"';&\\\n\x00\u202e"
	s.Version = "\xff\xfe"
	s.Nodes[0].Name = "end\"]; click n0 href \"javascript:alert(1)\"\n  n1[\"`**x**`"
	s.Nodes[1].Name = "</text><image href=\"http://example.org/x\"/>&amp;&#34;%%{init}%%"
	s.Nodes[2].Name = strings.Repeat("無限の名前 🜁 1. item ", 60)
	s.Nodes[2].Kind, s.Nodes[2].Outcome = host.Fail, `"\G\N\E"`
	s.Nodes[0].Edges[0].Name = "\" | n9 & <b onload='x'> \\N \\"
	s.Nodes[0].Errors[0].Name = "--> x; y #quot; {{}} 1. list"
	s.Nodes[0].Costs = map[string]int64{"<meter>": -1}
	return s
}

// random is a graph of n nodes with edges in all directions.
func random(n int, seed uint64) host.Shape {
	r := rand.New(rand.NewPCG(seed, 1))
	s := host.Shape{Name: fmt.Sprint("random ", seed), Version: "1"}
	for i := range n {
		node := host.Node{Name: fmt.Sprintf("node_%d_%s", i, strings.Repeat("x", r.IntN(20)))}
		if i == n-1 || i > n/2 && r.IntN(6) == 0 {
			node.Kind = host.Succeed
		} else {
			for k := range r.IntN(3) {
				node.Edges = append(node.Edges, host.Edge{Name: fmt.Sprint("condition ", k), To: r.IntN(n), Max: r.IntN(3)})
			}
			node.Edges = append(node.Edges, host.Edge{Name: "otherwise", Kind: host.Otherwise, To: min(n-1, i+1+r.IntN(3))})
			if r.IntN(3) == 0 {
				node.Errors = append(node.Errors, host.Edge{Name: "broken", Kind: host.OnError, To: r.IntN(n)})
			}
		}
		s.Nodes = append(s.Nodes, node)
	}
	return s
}
