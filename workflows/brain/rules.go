package brain

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The rules that every reply has to pass before a model judges it, and what a reply scores.
const (
	minCharacters = 10
	minWords      = 3
	opening       = 400 // characters in which a reply refuses, if it does: what comes later is part of an answer
	shortReply    = 100 // characters of a reply that is nothing but its apology
	substance     = 200 // bytes of what is offered in place of what was refused

	scoreTooShort = 0.1
	scoreTooFew   = 0.2
	scoreRefused  = 0.3
	scorePassed   = 0.5
)

// Ruling is what the rules say of a reply. Kind is empty where all of them pass; otherwise Message is the feedback, and Score is
// the whole confidence: a reply that fails a rule is not judged, and cannot pass.
type Ruling struct {
	Score   float64
	Kind    string // too_short, too_few_words, refusal, apology, error
	Message string
}

// Rule holds a reply to the rules.
func Rule(reply string) Ruling {
	plain := strings.Join(strings.Fields(strings.ToLower(strings.ReplaceAll(reply, "’", "'"))), " ")
	switch {
	case utf8.RuneCountInString(strings.TrimSpace(reply)) < minCharacters:
		return Ruling{scoreTooShort, "too_short", "The reply is too short: answer in whole sentences."}
	case words(reply) < minWords:
		return Ruling{scoreTooFew, "too_few_words", "The reply has too few words: answer in whole sentences."}
	case failed(plain):
		return Ruling{scoreRefused, "error", "The reply is an error message: answer the question itself."}
	case refuses(plain):
		return refusal()
	case apologizes(plain):
		return Ruling{scoreRefused, "apology", "The reply only apologizes: answer the question itself."}
	}
	return Ruling{Score: scorePassed}
}

func refusal() Ruling {
	return Ruling{scoreRefused, "refusal", "The reply refuses or evades: answer what can be answered, and say plainly what cannot."}
}

// words counts what stands between spaces. In a script that is written without them, two letters count as one word.
func words(s string) (n int) {
	for _, field := range strings.Fields(s) {
		dense := 0
		for _, r := range field {
			if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) {
				dense++
			}
		}
		n += max(1, dense/2)
	}
	return n
}

// The kinds of replies that are no answer. Each is a way of speaking, not a sentence that some model is known for; all are matched
// against lower-case text with single spaces.
var (
	// The speaker cannot or will not do what speakers are asked for.
	refusesToAct = regexp.MustCompile(`\b(?:i|we) (?:simply |just |really |also )?(?:can't|cannot|can not|could not|couldn't|won't|will not|would not|am (?:not able|unable|not allowed|not permitted|not in a position|not comfortable)(?: to)?|are (?:not able|unable)(?: to)?|do not feel comfortable|don't feel comfortable|must decline|have to decline|must refuse|decline|refuse)(?: to| from)?(?: really| actually| be able to| in good conscience)? ` + asked)
	// The same, contracted.
	refusesShort = regexp.MustCompile(`\bi'm (?:not able|unable|not allowed|not permitted|not comfortable|not going|not in a position)(?: to| with)? ` + asked)
	// Regret, then inability, in one sentence.
	regretsInability = regexp.MustCompile(`\b(?:sorry|apologi[sz]e|apologies|regret|unfortunately|i'm afraid|i am afraid)\b[^.!?]{0,100}\b(?:i|we)(?:'m| am| are)? ?(?:can't|cannot|can not|won't|will not|unable|not able|not allowed|not permitted|must decline|have to decline|don't have|do not have|don't know|do not know)\b`)
	// Somebody is missing something, and concludes that there is no answer.
	concludesInability = regexp.MustCompile(`\b(?:therefore|thus|hence|so|consequently|as a result),? i(?:'m| am)? ?(?:can't|cannot|don't|do not|unable|not able|won't)\b`)
	// It is the program that speaks, of its limits.
	limitedProgram = regexp.MustCompile(`\b` + asProgram + `\bi(?:'m| am)? ?(?:can't|cannot|unable|not able|not designed|not programmed|not capable|do not have the (?:ability|capability)|don't have the (?:ability|capability))\b`)
	// It is the program that speaks, of what one should think instead of what was asked.
	lectures = regexp.MustCompile(`^` + asProgram + `\bi(?:'m| am)? ?(?:(?:must|need to|have to|want to|would like to|should) (?:clarify|emphasi[sz]e|stress|remind|point out|note|say)\b[^.!?]*\b` + wrong + `|(?:committed|designed|programmed|here) to (?:promot|treat|respect|uphold|foster))`)
	// It is the program that has no opinion, and then one about what is fair.
	preaches = regexp.MustCompile(`^` + asProgram + `\bi (?:don't|do not) (?:hold|have) (?:any )?(?:personal )?(?:opinions|beliefs|views)\b.*\b(?:discriminat\w*|regardless of|human rights?|fundamental rights?|equality|(?:treat\w*|all) (?:\w+ )*(?:equally|fairly)|should(?: not|n't) (?:\w+ )?(?:disqualify|be (?:judged|excluded|barred|singled|treated|denied)))\b`)
	// Nothing is known, from the start.
	knowsNothing = regexp.MustCompile(`^(?:(?:sorry|unfortunately),? )?(?:i|we) (?:really |honestly )?(?:don't|do not) (?:know|have (?:any |enough |sufficient |the )?(?:information|data|context|knowledge|details|answer))\b`)
	// The ask is refused without a speaker.
	refusesUnsigned = regexp.MustCompile(`^(?:sorry,? )?(?:(?:this|that|your) (?:request|question|content|prompt|topic)|no comment|request)\b[^.!?]{0,40}\b(?:(?:violates|goes against|against|outside|beyond)\b|(?:was|is|has been|cannot be|can't be) (?:denied|declined|refused|blocked|rejected|answered|processed|fulfilled|not allowed|not permitted))`)

	// What cannot be done is followed by what can.
	offers = regexp.MustCompile(`\b(?:but|however),? (?:here|i can|i could|i'm happy to|i am happy to|you can|you could|you may|there are|many|some)\b`)

	apology   = regexp.MustCompile(`^(?:oh,? |hi,? |hello,? )?(?:i'm |i am |we're |we are |i |we |my |our |please accept my )?(?:(?:so|very|really|deeply|truly|terribly|sincerely|do) )*(?:sorry|apologi[sz]e|apologies|sincere apologies)\b`)
	feelsWith = regexp.MustCompile(`^\S*(?: \S+){0,4}? ?sorry (?:to hear|to learn|for your loss|(?:that |if )?(?:you|he|she|they)\b)`)
	withBut   = regexp.MustCompile(`^[^.!?]*\b(?:but|however|unfortunately)\b`)

	errorText = regexp.MustCompile(`^(?:\W*(?:(?:fatal |internal |unexpected |unknown |api |server |runtime |system )*(?:error|exception)\b\W*(?:$|[:\-–\d(\]]|occurred|while|code)|traceback \(most recent|(?:http )?[45]\d\d (?:error\b|bad |internal |service |gateway |too many |unauthorized|forbidden|not found)|internal server error|bad gateway|service (?:temporarily )?unavailable|gateway time-?out|rate limit (?:exceeded|reached)|too many requests|request (?:failed|timed out)|connection (?:refused|reset|timed out)|something went wrong|an? (?:\w+ )?(?:error|exception) (?:has )?occurred|oops\b))`)
)

// How a program speaks of itself; what speakers are asked for; what they call wrong.
const (
	asProgram = `as an? (?:[\w-]+ ){0,3}?(?:ai|assistant|language model|chatbot)\b[^.!?]{0,60}?`
	asked     = `(?:(?:help|assist|support)(?: you)?(?: (?:with|to|in|on|by)\b|[.,!;]|$)|(?:provide|answer|share|give|offer|discuss|comply|fulfil+|engage|participate|create|generate|write|produce|recommend|advise|discussing|answering|providing|sharing|helping|respond|reply|continue|comment|disclose|reveal|facilitate|encourage|endorse|condone|promote|access|browse|proceed|process|do (?:that|this|so|it)|say|tell|talk|speak|determine|verify|confirm|make|guide|teach|explain|describe|show)\b|that\b|this\b)`
	wrong     = `(?:discriminat\w*|stereotyp\w*|prejudice\w*|bias\w*|hateful|harmful|offensive|inappropriate|unethical|illegal|wrong|unfair|(?:not|never|isn't|neither) (?:\w+ )?(?:accurate|fair|appropriate|ethical|right|acceptable|okay|ok|respectful|correct|legal))`
)

// refuses says whether a reply evades the question. Who says what they cannot do, and then does at length what they can, does not.
func refuses(plain string) bool {
	start := clipped(plain, opening)
	matches := func(kind *regexp.Regexp) bool { return kind.MatchString(start) }
	if at := offers.FindStringIndex(start); at == nil || len(plain)-at[1] < substance {
		if slices.ContainsFunc([]*regexp.Regexp{refusesToAct, refusesShort, regretsInability, limitedProgram, knowsNothing}, matches) {
			return true
		}
	}
	return slices.ContainsFunc([]*regexp.Regexp{concludesInability, lectures, preaches, refusesUnsigned}, matches)
}

// apologizes says whether a reply is an apology, and not an answer that begins with one. Feeling with somebody is none.
func apologizes(plain string) bool {
	return apology.MatchString(plain) && !feelsWith.MatchString(plain) &&
		(utf8.RuneCountInString(plain) < shortReply || withBut.MatchString(plain))
}

func failed(plain string) bool { return errorText.MatchString(plain) }
