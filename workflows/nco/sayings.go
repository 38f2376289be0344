package nco

import "fmt"

// What is asked where the questions of the lexicon do not fit, in the language in which somebody wrote: English, Hindi in
// Latin letters, Hindi.
type utterance [3]string

var (
	sayMore = utterance{
		"I could not tell the occupation from that. What do you do on a usual working day, and with which tools, materials or people?",
		"Isse kaam samajh nahin aaya. Aap roz kya kaam karte hain, aur kin auzaron, cheezon ya logon ke saath?",
		"इससे काम समझ नहीं आया। आप रोज़ क्या काम करते हैं, और किन औज़ारों, चीज़ों या लोगों के साथ?",
	}
	saySeveral = utterance{
		"You named more than one kind of work. Which one takes most of your time?",
		"Aapne ek se zyada kaam bataye. Kis kaam mein sabse zyada samay lagta hai?",
		"आपने एक से ज़्यादा काम बताए। किस काम में सबसे ज़्यादा समय लगता है?",
	}
	sayKinds = utterance{
		"%q can mean several kinds of work. Which one is yours? You can also say it in other words.",
		"%q kai tarah ke kaam ho sakte hain. Aapka kaun sa hai? Aap apne shabdon mein bhi bata sakte hain.",
		"%q कई तरह के काम हो सकते हैं। आपका कौन सा है? आप अपने शब्दों में भी बता सकते हैं।",
	}
	sayWhich = utterance{
		"Several kinds of work fit what you said. Which one comes closest to yours? You can also say it in other words.",
		"Aapki baat se kai tarah ke kaam mel khate hain. Sabse nazdeek kaun sa hai? Aap apne shabdon mein bhi bata sakte hain.",
		"आपकी बात से कई तरह के काम मेल खाते हैं। सबसे नज़दीक कौन सा है? आप अपने शब्दों में भी बता सकते हैं।",
	}
	sayWorkplace = utterance{
		"You named where you work (%s). What do you do there?",
		"Aapne kaam ki jagah batayi (%s). Aap wahan kya kaam karte hain?",
		"आपने काम की जगह बताई (%s)। आप वहाँ क्या काम करते हैं?",
	}
	sayPlace = utterance{
		"You named a place (%s). What work do you do there?",
		"Aapne ek jagah batayi (%s). Aap wahan kya kaam karte hain?",
		"आपने एक जगह बताई (%s)। आप वहाँ क्या काम करते हैं?",
	}
	sayEmployer = utterance{
		"You named who you work for (%s). What work do you do there?",
		"Aapne bataya ki aap kiske liye kaam karte hain (%s). Aap wahan kya kaam karte hain?",
		"आपने बताया कि आप किसके लिए काम करते हैं (%s)। आप वहाँ क्या काम करते हैं?",
	}
	sayNothing = utterance{
		"What work do you do? Please say what you make, sell, repair or look after.",
		"Aap kya kaam karte hain? Kripya batayein ki aap kya banate, bechte, theek karte ya sambhalte hain.",
		"आप क्या काम करते हैं? कृपया बताएँ कि आप क्या बनाते, बेचते, ठीक करते या सँभालते हैं।",
	}
	sayNoEntry = utterance{
		"The code %s is not in the catalogue.",
		"Code %s is suchi mein nahin hai.",
		"कोड %s इस सूची में नहीं है।",
	}
	sayNoChoice = utterance{
		"There is no choice %s.",
		"Vikalp %s nahin hai.",
		"विकल्प %s नहीं है।",
	}
	sayScript = utterance{
		"I can read English and Hindi, in Latin letters or Devanagari. Please say in one of them what work you do.",
	}
)

// say gives a question in the person's language.
func (t *trial) say(u utterance) string { return u.in(t.own.tongue) }

func (u utterance) in(t tongue) string {
	if u[t] == "" {
		return u[0]
	}
	return u[t]
}

// with puts a text into a question, in each language.
func (u utterance) with(t tongue, said string) utterance {
	return utterance{fmt.Sprintf(u.in(t), said)}
}

// tongue is the language that somebody writes.
type tongue int

const (
	english tongue = iota
	hinglish
	hindi
)
