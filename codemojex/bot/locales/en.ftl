# Everything the bot says, in English. Tags are Telegram's HTML; arguments are escaped by the program.
# Sentences that end in -toast, -alert or -label are shown as plain text and hold no tags.

## Welcome

start =
    👋 <b>Codemojex</b>: I hide a secret code of emojis, you crack it.

    Pick a game and tap the emojis, or just type them. In a group, say /play and everybody can join in.
start-group =
    👋 I hide a secret code of emojis, you crack it together or against each other.

    /play starts a game here, /rules explains it.
start-quick-label = ⚡ Quick: 4 of 8
start-classic-label = 🎯 Classic: 6 of 12
start-expert-label = 🧠 Expert: 6 of 24
not-a-member = That game belongs to a group that you are not in. Join the group, then you may play.
composer-lost = ✉️ This game belongs to a group that you are not in any more.
start-game-over = That game is over. /play starts a new one.
help =
    <b>Play</b>
    /play <i>quick | classic | expert | blind</i> – a new game; in groups also <i>race</i> or <i>team</i>
    /guess 🍎🍋🍇🍓 – a guess; typing just the emojis works as well
    /board – the board again · /history – your guesses
    /lock 1 🍎 – keep an emoji in its place · /unlock 1 – let it go

    <b>End</b>
    /end – for whoever started the game, and for admins
    /vote_end – in a group everybody can vote

    /verify checks that I did not cheat. /rules explains the points.
rules =
    <b>Rules</b>
    The code has emojis of the palette, each at most once, in a secret order. So does a guess.

    <b>Points</b>: an emoji in its place earns 100, less the further away it stands, 0 when it is not in the code.
    ● in place · ○ in the code, but elsewhere
    🟩 in place · 🟨 elsewhere · ⬜ not in the code
    · nothing until the end

    <b>Quick</b> shows the squares, <b>Classic</b> points and ●○, <b>Expert</b> only the points. <b>Blind</b> shows nothing but a dot until the game is over.

    <b>Race</b>: everybody has their own tries, the first to crack the code wins.
    <b>Team</b>: you share the tries and the win.

    <b>Season points</b>: 100 for a crack and 10 more for each try left, 200 at most. Everybody else gets half of their best guess in percent.

    Before a game I publish a fingerprint of the code. Afterwards /verify compares it.
rules-alert =
    Guess the secret emojis in their order, each at most once.
    ● or 🟩 in place, ○ or 🟨 elsewhere.
    Type emojis or /guess. More: /rules

# In place of a name, a title or a word in which nothing can be seen.
nameless = player
nameless-room = group
nameless-word = …

## Games

preset-name = { $preset ->
    [quick] Quick
    [classic] Classic
    [expert] Expert
    [blind] Blind
   *[other] { $preset }
}
mode-name = { $mode ->
    [race] race
    [team] team
    [solo] solo
   *[other] { $mode }
}
play-unknown =
    I do not know “{ $word }”. Try <code>/play quick</code>, <code>classic</code>, <code>expert</code> or <code>blind</code>, in a group with <code>race</code> or <code>team</code>. Emoji sets: { $sets }.
play-solo-here = Solo games are for our private chat. Here it is <i>race</i> or <i>team</i>.
play-alone = Here you play alone; <i>race</i> and <i>team</i> are for groups. Add me to one and say /play there.
play-already = A game is on already: its board is just above. { $where ->
        [private] /end stops it.
       *[group] /end or /vote_end stops it.
    }
play-full = I cannot begin a new game right now: too many finished games wait to be saved. Games that are on go on. Please try again later.
play-privacy = ℹ️ Plain messages are hidden from me in this group. Guess with /guess, reply to my board, or use the button under it. An admin can change that by making me an admin.
silent-told =
    🔇 I may not write in <b>{ $room }</b>, so its game goes on unseen: guesses count and the deadline stays.
    When I may write again, I show the board there.
as-yourself = I cannot tell who you are while you write anonymously. Please write as yourself.
no-game = No game is on. /play starts one.

## Board

board-title = 🎯 <b>{ $preset } · { $mode }</b> – { $length } of { $size } emojis
board-palette = 🎨 { $palette }
board-terms = ⏳ until { $deadline } · 🔏 <code>{ $commitment }</code>
board-standings = <b>Standings</b>
board-standing = { $rank }. { $name } – { $best } · { $tries ->
        [one] { $tries } try
       *[other] { $tries } tries
    }
board-standings-more = … and { $count } more
board-team = Team
board-guesses = <b>Guesses</b>
board-guess = { $name } { $try }: { $code } { $feedback }
board-own-guess = { $try }: { $code } { $feedback }
board-guess-waiting = { $name } { $try }: ⏳
board-own-guess-waiting = { $try }: ⏳
board-guess-void = { $name }: <s>{ $code }</s> came too late
board-guess-cracked = 🔓
board-earlier = … { $count ->
        [one] { $count } earlier guess
       *[other] { $count } earlier guesses
    }
board-tries-left = Tries left: { $tries }
board-no-guesses = No guess yet. Who dares?
board-nobody = Nobody has guessed.
board-moved = ⤵️ This goes on further down.
board-how = Reply with { $length } emojis or tap the button below.
board-how-solo = Tap the emojis below or type { $length } of them.
board-exhausted = ⌛ Everybody who plays is out of tries. I tell the code at { $ends }, unless somebody joins.
board-sealing = 🔓 <b>{ $name }</b> has cracked it! Earlier guesses are still being counted …
board-draft = ✏️ { $slots }
board-over = 🏁 { $ending }
board-code = The code was { $code }
board-next = /play starts the next one · /verify checks this one
composer-title = ✉️ Your guess for <b>{ $room }</b>
composer-public = It appears on the group's board, under your name.
composer-team = It appears on the group's board, under your name, and costs a try of the team.
composer-out = You have no tries left in this game.
compose-label = ✏️ Guess in private
history-label = 📜 My guesses
rules-label = ❔ Rules
vote-label = 🗳 Vote to end
again-label = 🔁 Play again
back-label = ⌫
clear-label = ✖️
send-label = ✅ { $count }/{ $length }

## Results

ending-cracked = <b>{ $name }</b> cracked the code!
ending-cracked-team = The team cracked the code, thanks to <b>{ $name }</b>!
ending-out_of_tries = All tries are used up, the code stayed secret.
ending-deadline = Time is up, the code stayed secret.
ending-ended = The game was ended.
ending-voted = You voted to end the game.
result-late = 🕰 While I could not write here, a game has ended: { $preset } · { $mode }, begun { $begun }
result-standing = { $rank }. { $name } – { $best } · { $tries ->
        [one] { $tries } try
       *[other] { $tries } tries
    } · { $points ->
        [one] +{ $points } season point
       *[other] +{ $points } season points
    }
result-proof =
    🔏 <code>{ $commitment }</code>
    🎲 <code>{ $nonce }</code>

## Guesses

guess-how = Write the emojis after the command: <code>/guess { $example }</code>
guess-unknown = { $cluster } is not in this game. Choose from { $palette }
guess-length = The code has { $length ->
        [one] { $length } emoji
       *[other] { $length } emojis
    }, you sent { $count }.
guess-length-pinned = The code has { $length } emojis and { $pinned ->
        [one] one is pinned
       *[other] { $pinned } are pinned
    }: send the other { $free }, or all { $length }. You sent { $count }.
guess-burst = One guess a message, please: { $length } emojis. You sent { $count }, and none of them counted.
guess-repeated = { $token } stands there twice. Every emoji counts once.
guess-repeated-pinned = { $token } is pinned at place { $place } and cannot stand there twice. <code>/unlock { $place }</code> lets it go.
guess-all-pinned = All { $length } places are pinned. <code>/unlock all</code> frees them; or send { $length } emojis, which count as typed.
refused-closed = This game is over. /play starts a new one.
refused-late = Too late: the code is cracked.
refused-no_tries = You have no tries left in this game.
refused-cooldown = Slow down a little: { $seconds } s.
refused-gone = I do not find this game any more. /play starts a new one.
refused-not_yours = That game is somebody else's alone. /play starts one of your own.
refused-tried = You have tried { $code } already. It cost nothing.
refused-tried_waiting = You have sent { $code } already, its score is on the way. It cost nothing.
refused-team_tried = Your team has tried { $code } already. It cost nothing.
refused-team_tried_waiting = Your team has sent { $code } already, its score is on the way. It cost nothing.
refused-busy = Too many guesses are waiting. Try again in a moment.
text-unknown = I understand emojis and commands. /help shows them.
order-unknown = I do not know that command. /help shows all of them.
order-near = Do you mean /{ $order }? /help shows all commands.
text-copied = Forwarded messages are no guesses. Type your own, or copy the emojis.

## History, locks, verification

history-title = <b>Your guesses</b>
history-none = You have not guessed in this game yet.
history-left = Tries left: { $tries }
history-none-toast = You have not guessed in this game yet.
lock-how = Pin an emoji like this: <code>/lock 1 { $example }</code>
lock-place = This code has the places 1 to { $length }.
lock-none = 📌 Nothing is pinned.
lock-full = 📌 { $slots }: all places are pinned, so there is nothing left to guess. <code>/unlock 1</code> or <code>/unlock all</code> frees them.
lock-one = One emoji for a place, please: <code>/lock { $place } { $token }</code>
lock-done = 📌 { $slots }
unlock-how = Name the place: <code>/unlock 1</code>, or <code>/unlock all</code>.
verify-live =
    🔏 <code>{ $commitment }</code>
    This is the fingerprint of the code. When the game is over, /verify compares it with the code that I show.
verify-good =
    ✅ I played fair. SHA-256 of the code and the nonce is the fingerprint from before the first guess.
    { $code }
    🎲 <code>{ $nonce }</code>
    🔏 <code>{ $commitment }</code>
verify-bad =
    ❌ The fingerprint does not fit. Please tell whoever runs this bot.
    { $code }
    🎲 <code>{ $nonce }</code>
    🔏 <code>{ $commitment }</code>
verify-how =
    To check it yourself: SHA-256 of the emojis and the nonce, in this order, with U+001E between them.

## Ending

end-rights = Only who started the game and admins can end it. /vote_end is for everybody.
end-ask = Do you mean the game of <b>{ $room }</b>? It ends for everybody there. Your own game you see with /play.
end-label = 🏁 End it
vote-count = 🗳 { $count } of { $needed } votes to end the game; { $needed } within { $minutes } minutes end it. /vote_end adds yours.
vote-again = Your vote counts already: { $count } of { $needed }.
vote-sent = 🗳 Your vote counts: { $count } of { $needed }. The group is told.
member-unsure = I cannot find out right now whether you are in that group. Say it there, or try again in a moment.
vote-solo = This game is yours alone: /end ends it.
vote-toast = Vote counted: { $count } of { $needed }.
vote-again-toast = Your vote counts already: { $count } of { $needed }.
vote-done-toast = The vote has ended the game.

## Toasts of buttons

outdated-toast = This button is out of date.
over-toast = This game is over.
not-a-member-toast = You are not in the group of this game.
not-yours-toast = This button is not for you. Write to me in private to play.
start-here-toast = Send /play in this chat to start a game.
used-toast = { $token } is in your guess already.
empty-toast = There is nothing to take back.
pinned-toast = What stands there is pinned: /unlock 1 or /unlock all frees it.
full-toast = All places are filled: send it or take one back.
missing-toast = { $count ->
        [one] One place is still empty.
       *[other] { $count } places are still empty.
    }
sent-toast = Guess { $try } is in!
refused-toast = { $reason ->
    [late] Too late: the code is cracked.
    [no_tries] You have no tries left in this game.
    [tried] You have tried this guess already. It cost nothing.
    [tried_waiting] You have sent this guess already, its score is on the way. It cost nothing.
    [team_tried] Your team has tried this guess already. It cost nothing.
    [team_tried_waiting] Your team has sent this guess already, its score is on the way. It cost nothing.
    [cooldown] Slow down a little.
    [not_yours] That game is somebody else's alone.
    [busy] Too many guesses are waiting. Try again in a moment.
   *[other] This game is over.
}
ended-toast = The game is ended.
rights-toast = Only who started the game can end it from here.
already-toast = A game is on already.
trouble-toast = Something went wrong, I am trying again.

## Menu

menu-play = Start a game
menu-guess = Guess the code
menu-board = Show the board
menu-history = Show your guesses
menu-lock = Pin an emoji in its place
menu-unlock = Let a pinned emoji go
menu-end = End the game
menu-vote_end = Vote to end the game
menu-verify = Check that the game was fair
menu-rules = Read the rules
menu-help = See all commands
