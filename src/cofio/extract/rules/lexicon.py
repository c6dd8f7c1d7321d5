"""The words that the rules know: verbs, adverbs, trades, relatives and the like, in lower case."""

from __future__ import annotations


def parse_words(words: str) -> frozenset[str]:
    """Words that are written with spaces between them."""
    return frozenset(words.split())


VERBS = parse_words(
    "accept ache add admire admit adopt adore advise afford agree aim allow answer apologize appear apply "
    "appreciate approach argue arrange arrive ask assume attend avoid bake become begin believe belong bike blame "
    "blog boil borrow bother bowl box breathe breed bring brush build burn buy call camp care carry catch cause "
    "celebrate change chat check chew choose claim clean climb close coach code collect come commute compare "
    "complain compose compost connect consider consult contain continue contribute cook correct cough count cover "
    "crave create cry curate cycle dance date deal debug decide decorate deliver demand depend deploy deserve "
    "design despise detest develop dig direct disagree discover discuss dislike dive do donate doubt draft draw "
    "dread dream dress drink drive drop earn eat edit encourage end enjoy enter envy examine exercise expect "
    "explain explore express face fail fall farm fast fear feed feel fence fight fill find finish fish fit fix "
    "fly follow forage forget garden gather get give go golf grade grow guess guide handle happen hate have hear "
    "help hike hold hope hunt identify imagine improve include inspect intend invest invite iron jog join juggle "
    "jump keep kick knit know lack lead leave lecture lend lie lift like listen live lock long look lose love "
    "maintain make manage marry matter mean meditate meet mention mentor mind miss mix move mow need nap notice "
    "obey object offer open operate order organize owe own pack paint park participate pass pay perform pet "
    "photograph pick plan plant play pour practice practise pray prefer prepare pretend prevent produce program "
    "promise pronounce protect prove provide publish pull push race raise rate reach realise realize receive "
    "recognize recommend record recycle refuse regret rehearse relax relocate rely remain remember remind rent "
    "repair repeat reply report represent require research resent rest return review ride row run sail save say "
    "scream search see seem sell send serve sew share shave shop shout show shower sign sing sit skate skateboard "
    "sketch ski skip sleep smell smile smoke snack snore snowboard solve sound speak spend stand start stay steal "
    "stick stop store stream stretch struggle study stutter subscribe suffer suggest supervise support suppose "
    "surf suspect swear sweat swim take talk taste teach tell tend test thank think throw touch tour trade train "
    "translate travel treat trust try tutor type understand unwind use vacation value visit volunteer vote wait "
    "wake walk want warn wash watch water wear weigh wish wonder work worry worship write yearn"
)
"""Verbs in their base form whose third person follows the rules of spelling, less those whose past looks the same."""

PASTS = parse_words(
    "ate began became bought broke brought built burnt came caught chose cost dealt did drank drew drove dug "
    "dreamt fed fell felt flew forgave forgot fought found froze gave got grew had heard held hid hung kept knew "
    "laid led left lent lost made meant met paid quit ran rang rode rose said sang sank sat saw sent shook shot "
    "slept sold spent spoke spilt stole stood stuck struck swam swore swung taught thought threw told took tore "
    "understood went wept woke won wore wrote was used rebuilt rewrote redid undid withdrew overslept outgrew"
)
"""Past forms that are the same for every person."""

NOT_PAST = parse_words("need feed speed bleed breed seed heed weed embed succeed exceed proceed bed red fred")
"""What ends in -ed and is no past."""

MODALS = parse_words(
    "will would can could should must might may won't wouldn't can't cannot couldn't shouldn't mustn't mightn't "
    "didn't hadn't wasn't"
)

ADVERBS = parse_words(
    "absolutely actually almost already also always basically currently definitely even eventually especially "
    "finally first frequently fully generally genuinely greatly hardly honestly initially instead just lately "
    "literally mainly mostly never normally not now occasionally often once only originally particularly "
    "personally primarily probably quickly quite rarely really recently regularly seldom seriously simply "
    "sometimes soon still strongly strictly sincerely suddenly then truly typically usually"
)

PARTICIPLES = parse_words(
    "been become begun bought broken brought built caught chosen come done drawn driven eaten fallen felt "
    "forgotten found given gone got gotten grown had heard held hidden hurt kept known led left lent lost made "
    "met moved paid put read ridden run said seen sent set sold spent spoken stood swum taken taught thought "
    "thrown told understood won worn written"
)

OTHERS = parse_words(
    "you your yours yourself yourselves you're you've you'll you'd u ur y'all we us our ours ourselves we're "
    "we've we'll we'd let's please thanks if unless whether suppose wish ain't lol haha"
)
"""Words that show that a sentence is not only about its speaker, or that it does not tell what is so."""

FOREIGN = parse_words(
    "og jeg ikke å på til meg mitt vi har ich und nicht ist mein meine habe que pero estoy soy tengo muy mi je et "
    "suis mon miei che sono ho jag och inte är ik niet een het eu não"
)
"""Common words of other languages that are no English words when in lower case."""

VAGUE = parse_words(
    "amazing anyone anything awesome awful away back bad best better bit cool crazy done else ever everyone "
    "everything exactly fantastic feel fine fun funny get getting go going gonna good got great guess hard "
    "horrible idea interesting kind know lol lot lots lovely make makes many maybe mean much need nice nothing ok "
    "okay one ones perfect perhaps pretty quite really right said say see seem seems someone something sort still "
    "stuff super sure terrible thing things think thought today tomorrow totally tried true try way weird well "
    "went wonderful wow yeah yes yesterday yet"
)
"""Words that tell nothing by themselves."""

TRADES = parse_words(
    "accountant actor actress actuary analyst architect artist astronomer attorney auditor author baker banker "
    "barber barista bartender biologist bookkeeper botanist butcher captain caretaker carpenter cashier chef "
    "chemist clerk coach composer conductor consultant contractor cook counselor dentist designer developer "
    "dietitian director doctor driver economist editor electrician engineer entrepreneur farmer firefighter "
    "fisherman florist founder freelancer gardener geologist guard hairdresser historian illustrator instructor "
    "intern interpreter investor janitor jeweller journalist judge lawyer lecturer librarian locksmith machinist "
    "magician manager marketer mason mathematician mechanic midwife miner model musician nanny neurologist "
    "novelist nurse nutritionist optician paediatrician painter paralegal paramedic pathologist pediatrician "
    "pharmacist photographer physician physicist physiotherapist pianist pilot plumber poet policeman politician "
    "postdoc potter producer professor programmer psychiatrist psychologist psychotherapist radiologist realtor "
    "receptionist recruiter researcher sailor salesman salesperson scientist sculptor secretary singer "
    "social-worker soldier statistician stylist student surgeon surveyor tailor teacher technician therapist "
    "translator tutor vet veterinarian violinist waiter waitress welder winemaker writer zoologist"
)

KIN = (
    "sister|brother|mother|mom|mum|father|dad|wife|husband|partner|girlfriend|boyfriend|fiancée|fiancé|fiancee"
    "|fiance|"
    "son|daughter|grandmother|grandma|grandfather|grandpa|aunt|uncle|cousin|niece|nephew|grandson|granddaughter|"
    "roommate|flatmate|best friend"
)
ANIMALS = (
    "dog|cat|puppy|kitten|parrot|hamster|rabbit|bunny|horse|pony|goldfish|turtle|tortoise|snake|lizard|gecko|canary|"
    "budgie|ferret|guinea pig|rat|labrador|poodle|beagle|corgi|terrier|retriever|husky|dachshund|chicken|hen"
)
ILLNESSES = (
    "type (?:1|2|one|two) diabetes|diabetes|asthma|epilepsy|adhd|add|autism|depression|anxiety|arthritis|migraines?"
    "|celiac disease|"
    "coeliac disease|crohn's(?: disease)?|ibs|high blood pressure|hypertension|hypothyroidism|eczema|psoriasis"
    "|insomnia|"
    "sleep apnea|dyslexia|endometriosis|lupus|multiple sclerosis|ms|parkinson's|ptsd|ocd|bipolar disorder|hay fever|"
    "osteoporosis|anemia|anaemia|tinnitus|glaucoma|scoliosis|fibromyalgia|pcos|hiv|hemophilia|a heart condition"
    "|tourette's"
)
NOT_ALLERGENS = (
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|mornings?|work|school|homework|exercise|sports?|people|kids"
    r"|idiots|stupid\w*"
    r"|bullshit|bs|drama|meetings|nonsense|you|fun|commitment|winter|cleaning|effort|dishes|boredom|math"
    r"|responsibility|hard work"
    r"|getting up|waking up|small talk|politics|lies|losing)\b"
)
"""What people are allergic to in jest."""
LANGUAGES = (
    "english|norwegian|german|spanish|french|italian|portuguese|dutch|swedish|danish|finnish|icelandic|polish|czech|"
    "russian|ukrainian|greek|turkish|arabic|hebrew|persian|farsi|hindi|urdu|bengali|tamil|punjabi|chinese|mandarin|"
    "cantonese|japanese|korean|vietnamese|thai|indonesian|malay|swahili|hungarian|romanian|bulgarian|serbian"
    "|croatian|"
    "catalan|basque|welsh|irish|latin|esperanto|tagalog|asl"
)
THINGS = (
    "car|house|apartment|flat|condo|cabin|cottage|boat|sailboat|bike|bicycle|e-bike|motorcycle|motorbike|scooter|van|"
    "campervan|truck|piano|guitar|violin|cello|telescope|farm|vineyard|greenhouse|kayak"
)
FIELDS = (
    "finance|marketing|sales|tech|IT|software|healthcare|education|construction|hospitality|retail|logistics|insurance"
    "|banking|law|research|publishing|advertising|HR|design|media|film|tourism|agriculture|government|consulting"
    "|journalism|real estate|robotics|biotech|cybersecurity|manufacturing"
)
NOT_PLACES = parse_words(
    "linux ubuntu debian fedora arch nixos windows mac macos ios android python rust go golang java kotlin "
    "javascript typescript ruby elixir haskell scala kubernetes docker terraform aws azure gcp postgres "
    "postgresql mysql sqlite mongodb redis kafka github gitlab git vim neovim emacs firefox chrome safari brave "
    "notion obsidian slack teams discord signal telegram whatsapp gmail outlook marketing sales engineering "
    "product finance hr design legal operations support research management react vue svelte angular django flask "
    "fastapi rails claude chatgpt gpt monday tuesday wednesday thursday friday saturday sunday january february "
    "march april may june july august september october november december plan "
    "room chapter office accounting level step page section team "
    "department phase version tier option"
)
"""What people move to without leaving home."""

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
