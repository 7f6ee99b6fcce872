"""A framework that owns its loop and runs on a plain thread: the two-step boundary."""

import threading

import anyio

from midcourse import Input, LiveRuntime, MemoryContext


def framework(generation, messages, provider):
    """Stands for somebody else's agent loop; only the calls of the batch are ours."""
    reply = ""
    for number in (1, 2, 3):
        batch = generation.take()  # what waits, the prompt included
        if generation.outcome is not None:
            return reply  # stopped meanwhile: make no request
        messages.extend(batch.messages)
        try:
            provider(number)
        except ConnectionRefusedError:
            del messages[len(messages) - len(batch.messages) :]
            batch.unsent()  # provably not sent: it is queued again
            raise
        batch.sent()  # the request went out: applied
        reply = f"I was told: {', '.join(m['content'] for m in messages if m['role'] == 'user')}."
        messages.append({"role": "assistant", "content": reply})
    return reply


async def main():
    context = MemoryContext()
    async with LiveRuntime() as runtime:
        prompt = Input("user", "a.txt", id="prompt")
        async with runtime.open_generation(prompt, context=context) as generation:

            def person():
                steer = Input("steer", "b.txt, not a.txt", id="steer")
                receipt = runtime.from_thread.submit_steering(steer, generation.id)
                print("steer", receipt["disposition"])

            def provider(number):
                if number == 1:  # while it works, a person types, on a third thread
                    typing = threading.Thread(target=person)
                    typing.start()
                    typing.join()

            while True:
                reply = await anyio.to_thread.run_sync(
                    framework, generation, context.messages, provider
                )
                if await generation.finish(reply):  # False: a steer came in time, go on
                    break
        print("steer", runtime.receipt("steer")["disposition"])
    print(generation.outcome, generation.text)


anyio.run(main)
