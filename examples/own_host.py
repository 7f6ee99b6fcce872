import anyio

from midcourse import Input, LiveRuntime, MemoryContext


async def main():
    context = MemoryContext()
    async with LiveRuntime() as runtime, anyio.create_task_group() as tasks:

        async def person():
            await anyio.sleep(0.1)
            steer = Input("steer", "b.txt, not a.txt")
            print(await runtime.submit_steering(steer, runtime.generation["id"]))
            print(await runtime.settled(steer.id))

        tasks.start_soon(person)
        prompt = Input("user", "a.txt")
        async with runtime.open_generation(prompt, context=context) as generation:
            async for request in generation.requests():  # each step is a request boundary
                await anyio.sleep(0.2)  # stands in for a model
                reply = f"Opened {context.messages[-1]['content']}."
                await context.add_message({"role": "assistant", "content": reply})
                request.finish(reply)  # proposes; a steer that came in time keeps it open
    print(generation.outcome, generation.text)


anyio.run(main)
